"""Formats of consumed messages: kcat's format strings and JSON envelope."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, Final, Protocol

from barnabas.cli.exit_codes import Misused
from barnabas.cli.show import show_time

Headers = list[tuple[str, bytes | None]]

_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|(0[0-7]{0,3}|[0-9]{1,3})|(.))", re.DOTALL)
_LETTERS: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_LENGTH: Final = Struct(">i")
_TIMESTAMP_TYPES: Final = {1: "create", 2: "logappend"}


class Message(Protocol):
    """The part of confluent_kafka's Message that formats use."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Any: ...


Format = Callable[[Message], bytes]


def unescape(text: str) -> bytes:
    r"""The bytes that \n \r \t \xHH and \NNN (octal after 0, else decimal) stand for.

    Any other character after a backslash stands for itself, as in kcat.
    """
    return _ESCAPE.sub(_unescape_one, text.encode("utf-8", "surrogateescape"))


def _unescape_one(match: re.Match[bytes]) -> bytes:
    hexadecimal, digits, character = match.groups()
    if hexadecimal:
        return bytes((int(hexadecimal, 16),))
    if digits:
        return bytes((int(digits, 8 if digits[:1] == b"0" else 10) & 0xFF,))
    return _LETTERS.get(character, character)


def compile_format(text: str, null: bytes = b"") -> Format:
    """The function from message to bytes of one kcat format string.

    `null` is printed for a null key or value.

    Raises  Misused for an unknown formatter after %
    """
    tokens = _tokens(null)
    pieces: list[Format] = []
    for literal, percent, name in re.findall(r"([^%]+)|(%)(.?)", text, re.DOTALL):
        if literal:
            pieces.append(_constant(unescape(literal)))
        elif percent and name in tokens:
            pieces.append(tokens[name])
        else:
            raise Misused(f"-f: unknown formatter %{name}; expected one of %{' %'.join(tokens)}")
    return lambda message: b"".join([piece(message) for piece in pieces])


def _constant(data: bytes) -> Format:
    return lambda _: data


def _tokens(null: bytes) -> Mapping[str, Format]:
    return {
        "s": lambda m: _or_null(m.value(), null),
        "S": lambda m: b"%d" % _length(m.value()),
        "R": lambda m: _LENGTH.pack(_length(m.value())),
        "k": lambda m: _or_null(m.key(), null),
        "K": lambda m: b"%d" % _length(m.key()),
        "t": lambda m: (m.topic() or "").encode(),
        "p": lambda m: b"%d" % (m.partition() or 0),
        "o": lambda m: b"%d" % (m.offset() or 0),
        "T": lambda m: b"%d" % m.timestamp()[1],
        "h": lambda m: _headers(m.headers() or []),
        "%": _constant(b"%"),
    }


def _or_null(data: bytes | None, null: bytes) -> bytes:
    return null if data is None else data


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(headers: Headers) -> bytes:
    """`name=value` separated by commas; NULL for a null value, as kcat prints it."""
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + _or_null(value, b"NULL")
        for name, value in headers
    )


def _fields(tokens: Mapping[str, Format]) -> Mapping[str, Format]:
    """The fields of --print: formatters by name, and the timestamp as ISO 8601."""
    return {
        "topic": tokens["t"],
        "partition": tokens["p"],
        "offset": tokens["o"],
        "timestamp": tokens["T"],
        "time": lambda m: show_time(m.timestamp()[1]).encode(),
        "key": tokens["k"],
        "headers": tokens["h"],
    }


def compile_fields(fields: Iterable[str], separator: bytes, end: bytes, null: bytes) -> Format:
    """The fields, then the value, separated by `separator` and followed by `end`."""
    tokens = _tokens(null)
    known = _fields(tokens)
    pieces: list[Format] = []
    for field in fields:
        if field == "value":
            continue  # always printed, and last
        if field not in known:
            raise Misused(f"--print {field}: unknown field; expected {', '.join(known)}, value")
        pieces += (known[field], _constant(separator))
    pieces += (tokens["s"], _constant(end))
    return lambda message: b"".join([piece(message) for piece in pieces])


def json_envelope(message: Message) -> bytes:
    """kcat's envelope on one line; data that is not UTF-8 is base64, marked by `*_encoding`."""
    envelope: dict[str, object] = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
    }
    timestamp_type, timestamp = message.timestamp()
    if timestamp_type in _TIMESTAMP_TYPES:
        envelope |= {"tstype": _TIMESTAMP_TYPES[timestamp_type], "ts": timestamp}
    headers = message.headers()
    if headers:
        envelope["headers"] = [text for header in headers for text in _header_texts(*header)]
    _put(envelope, "key", message.key())
    _put(envelope, "payload", message.value())
    return json.dumps(envelope, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _header_texts(name: str, value: bytes | None) -> tuple[str, str | None]:
    return name, None if value is None else value.decode("utf-8", "backslashreplace")


def _put(envelope: dict[str, object], field: str, data: bytes | None) -> None:
    try:
        envelope[field] = None if data is None else data.decode()
    except UnicodeDecodeError:
        envelope[field] = b64encode(data or b"").decode()
        envelope[f"{field}_encoding"] = "base64"
