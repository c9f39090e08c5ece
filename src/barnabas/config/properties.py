"""Java's .properties format, of server.properties and meta.properties.

A later line for the same key replaces an earlier one. A malformed file raises an error with its
name and the line's number; nothing of it is used.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from barnabas.base.errors import ConfigError

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}


def read_properties(path: Path) -> dict[str, str]:
    """The properties in a file.

    Raises  ConfigError if it cannot be opened, is not UTF-8, or has a malformed line
    """
    try:
        return parse_properties(path.read_text("utf-8"), str(path))
    except UnicodeDecodeError as cause:
        raise ConfigError(f"{path}: not UTF-8 text (byte {cause.start})") from cause
    except OSError as cause:
        raise ConfigError(f"{path}: {cause.strerror}") from cause


def parse_properties(text: str, source: str = "properties") -> dict[str, str]:
    """The properties in `text`; errors name `source`."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        try:
            key, value = _split(line)
            properties[_unescape(key)] = _unescape(value)
        except ValueError as cause:
            raise ConfigError(f"{source}, line {number}: {cause}") from cause
    return properties


def format_properties(properties: Mapping[str, str], comment: str = "") -> str:
    """The text that `parse_properties` and Java parse to the same mapping."""
    heading = [f"#{line}" for line in comment.splitlines()]
    pairs = [f"{_escape(key, ' =:#!')}={_escape_value(properties[key])}" for key in properties]
    return "".join(f"{line}\n" for line in heading + pairs)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its continuation lines, and its number; no comments or blank lines."""
    started, line = 0, ""
    for number, natural in enumerate(_natural_lines(text), 1):
        rest = natural.lstrip(_BLANKS)
        if not line and (not rest or rest[0] in "#!"):
            started = 0
            continue
        started, line = started or number, line + rest
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            line = line[:-1]
        else:
            yield started, line
            started, line = 0, ""
    if started:
        yield started, line


def _natural_lines(text: str) -> list[str]:
    # Not str.splitlines, which also splits at characters that Java keeps within a line.
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def _split(line: str) -> tuple[str, str]:
    """Key and value, both still escaped: the first bare blank, = or : ends the key."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    pieces: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            pieces.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == "u":
            pieces.append(_code_unit(text[at + 2 : at + 6]))
            at += 6
        else:
            escaped = text[at + 1 : at + 2]
            pieces.append(_ESCAPES.get(escaped, escaped))
            at += 2
    # Java writes a character beyond 16 bits as two \u escapes, a surrogate pair.
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _code_unit(digits: str) -> str:
    if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
        raise ValueError(f"malformed \\u{digits} (four hexadecimal digits must follow \\u)")
    return chr(int(digits, 16))


def _escape_value(text: str) -> str:
    # Only leading blanks are escaped: a reader would take them for the separator.
    start = len(text) - len(text.lstrip(" "))
    return "\\ " * start + _escape(text[start:], "=:#!")


def _escape(text: str, special: str) -> str:
    return "".join(
        _ESCAPED.get(char) or (f"\\{char}" if char in special else _printable(char))
        for char in text
    )


def _printable(char: str) -> str:
    if " " <= char <= "~":
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))
