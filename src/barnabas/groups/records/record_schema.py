"""The parts that records of `__consumer_offsets` are made of, read and written by their schema.

A message is a frozen dataclass in the order of Kafka's schema; the metadata of a field says what
kind of part it is, and which version was the first to have it. Flexible versions write lengths as
varints and may carry tagged fields; those that are not known are passed over.
"""

import dataclasses
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from barnabas.base.errors import BarnabasError, BrokerError, ErrorCode
from barnabas.wire.varint import Truncated, read_uvarint, uvarint

LONGEST_STRING: Final = 0x7FFF


class MalformedRecord(BarnabasError):
    """The bytes of a record are not what their type and version promise."""


class Form(NamedTuple):
    """The version of a message, and whether that is a flexible one."""

    version: int
    flexible: bool


@dataclass(slots=True)
class Source:
    """Bytes that are read from the front.

    Raises  MalformedRecord where they end too early, UnicodeDecodeError where they are no text
    """

    buffer: memoryview
    form: Form
    position: int = 0

    def take(self, size: int) -> memoryview:
        start, end = self.position, self.position + size
        if not start <= end <= len(self.buffer):
            raise MalformedRecord(f"{size} bytes at {start} reach past the end")
        self.position = end
        return self.buffer[start:end]

    def number(self, layout: struct.Struct) -> int:
        value: int = layout.unpack(self.take(layout.size))[0]
        return value

    def uvarint(self) -> int:
        try:
            value, self.position = read_uvarint(self.buffer, self.position)
        except Truncated as cut:
            raise MalformedRecord(str(cut)) from cut
        return value

    def length(self, layout: struct.Struct) -> int:
        """Of a string, of bytes or an array; negative if there is none."""
        return self.uvarint() - 1 if self.form.flexible else self.number(layout)


class Kind(NamedTuple):
    """How one kind of part is read, and how it is written."""

    read: Callable[[Source], Any]
    write: Callable[[bytearray, Any, Form], None]


_INT8, _INT16 = struct.Struct(">b"), struct.Struct(">h")
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")


def _number(layout: struct.Struct) -> Kind:
    def write(out: bytearray, value: int, _: Form) -> None:
        out += layout.pack(value)

    return Kind(lambda source: source.number(layout), write)


def _write_length(out: bytearray, length: int, form: Form, layout: struct.Struct) -> None:
    out += uvarint(length + 1) if form.flexible else layout.pack(length)


def as_utf8(text: str) -> bytes:
    """Raises  BrokerError, if no record can hold a text as long as that."""
    encoded = text.encode()
    if len(encoded) > LONGEST_STRING:
        raise BrokerError(ErrorCode.invalid_request, f"a string has {len(encoded)} bytes")
    return encoded


def _read_nullable_string(source: Source) -> str | None:
    length = source.length(_INT16)
    return None if length < 0 else str(source.take(length), "utf-8")


def _read_string(source: Source) -> str:
    text = _read_nullable_string(source)
    if text is None:
        raise MalformedRecord("a string is null that cannot be")
    return text


def _write_string(out: bytearray, text: str | None, form: Form) -> None:
    encoded = None if text is None else as_utf8(text)
    _write_length(out, -1 if encoded is None else len(encoded), form, _INT16)
    out += encoded or b""


def _read_bytes(source: Source) -> bytes:
    length = source.length(_INT32)
    if length < 0:
        raise MalformedRecord("bytes are null that cannot be")
    return bytes(source.take(length))


def _write_bytes(out: bytearray, data: bytes, form: Form) -> None:
    _write_length(out, len(data), form, _INT32)
    out += data


def _write_uuid(out: bytearray, value: uuid.UUID, _: Form) -> None:
    out += value.bytes


def kind(of: Kind, since: int = 0, tag: int | None = None) -> Mapping[str, Any]:
    """The metadata of a field."""
    return {"kind": of, "since": since, "tag": tag}


INT8: Final = _number(_INT8)
INT32: Final = _number(_INT32)
INT64: Final = _number(_INT64)
STRING: Final = Kind(_read_string, _write_string)
NULLABLE_STRING: Final = Kind(_read_nullable_string, _write_string)
BYTES: Final = Kind(_read_bytes, _write_bytes)
UUID: Final = Kind(lambda source: uuid.UUID(bytes=bytes(source.take(16))), _write_uuid)


def array(element: Kind) -> Kind:
    def read(source: Source) -> tuple[Any, ...]:
        count = source.length(_INT32)
        # Every element takes a byte at least: what announces more is not read until memory ends.
        if not 0 <= count <= len(source.buffer) - source.position:
            raise MalformedRecord(f"there is no array of {count} elements")
        return tuple([element.read(source) for _ in range(count)])

    def write(out: bytearray, values: tuple[Any, ...], form: Form) -> None:
        _write_length(out, len(values), form, _INT32)
        for value in values:
            element.write(out, value, form)

    return Kind(read, write)


def struct_of(message: Callable[..., Any]) -> Kind:
    """The kind of a part that is a message of its own, or of a whole message."""

    def read(source: Source) -> Any:
        plain, tagged = _fields(message, source.form.version)
        values = {name: part.read(source) for name, part in plain}
        if source.form.flexible:
            _read_tagged(source, tagged, values)
        return message(**values)

    def write(out: bytearray, value: Any, form: Form) -> None:
        plain, tagged = _fields(message, form.version)
        for name, part in plain:
            part.write(out, getattr(value, name), form)
        if form.flexible:
            _write_tagged(out, tagged, value, form)

    return Kind(read, write)


def _read_tagged(
    source: Source, known: Mapping[int, tuple[str, Kind]], values: dict[str, Any]
) -> None:
    for _ in range(source.uvarint()):
        tag, size = source.uvarint(), source.uvarint()
        part = Source(source.take(size), source.form)
        if tag in known:
            name, of = known[tag]
            values[name] = of.read(part)


def _write_tagged(
    out: bytearray, tagged: Mapping[int, tuple[str, Kind]], value: Any, form: Form
) -> None:
    out += uvarint(len(tagged))
    for tag, (name, of) in tagged.items():
        part = bytearray()
        of.write(part, getattr(value, name), form)
        out += uvarint(tag) + uvarint(len(part)) + part


def optional(of: Kind) -> Kind:
    """A message that is tagged and may be null: a number before it says whether it is there."""

    def read(source: Source) -> Any:
        return of.read(source) if source.uvarint() else None

    def write(out: bytearray, value: Any, form: Form) -> None:
        out += uvarint(0 if value is None else 1)
        if value is not None:
            of.write(out, value, form)

    return Kind(read, write)


@cache
def _fields(
    message: Any, version: int
) -> tuple[list[tuple[str, Kind]], dict[int, tuple[str, Kind]]]:
    """The fields that the version has: those in order, and those by tag."""
    fields = [each for each in dataclasses.fields(message) if each.metadata["since"] <= version]
    plain = [(each.name, each.metadata["kind"]) for each in fields if each.metadata["tag"] is None]
    tagged = {
        each.metadata["tag"]: (each.name, each.metadata["kind"])
        for each in fields
        if each.metadata["tag"] is not None
    }
    return plain, tagged
