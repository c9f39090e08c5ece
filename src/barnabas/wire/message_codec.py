"""The codec of messages that are written in `message_schema`: any version, flexible or not.

Flexible versions write lengths as varints and end each struct with tagged fields; unknown tags are
skipped. A reader checks every length before it uses it, so bytes from outside are safe to read.
"""

import dataclasses
import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, cast

from barnabas.base.errors import BarnabasError, BrokerError, ErrorCode
from barnabas.wire.bounds import LONGEST_STRING, MOST_ELEMENTS, is_array, is_nullable, nested_entity
from barnabas.wire.varint import Truncated, read_uvarint, uvarint

Buffer: TypeAlias = memoryview
# From a position to the value there and the position after it.
Read: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]
Write: TypeAlias = Callable[[bytearray, Any], None]

NEWEST: Final = 0x7FFF
NEVER: Final = 0x7FFF  # the first flexible version of a schema that has none
_NO_ID: Final = uuid.UUID(int=0)
_INT8, _INT16, _INT32 = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">i")
_NUMBERS: Final = {
    "bool": struct.Struct(">?"),
    "int8": _INT8,
    "int16": _INT16,
    "int32": _INT32,
    "int64": struct.Struct(">q"),
}


class MalformedMessage(BarnabasError, ValueError):
    """The bytes are not what their schema and version promise."""


class Kind(NamedTuple):
    """The codec of one kind of value."""

    read: Read
    write: Write


class MessageCodec:
    """Reads and writes the messages of one class in one version.

    Fields that are newer than the version take their default when read, and are not written.
    """

    def __init__(self, entity: type[Any], *, version: int = NEWEST, flexible: bool) -> None:
        self._kind = _struct_of(cast(Any, entity), version, flexible)

    def decode(self, data: bytes | memoryview, start: int = 0) -> Any:
        """Raises  MalformedMessage, if the bytes end early or hold what the schema does not have"""
        try:
            return self._kind.read(memoryview(data), start)[0]
        except struct.error as short:
            raise MalformedMessage(f"the message ends early: {short}") from short
        except Truncated as short:
            raise MalformedMessage(str(short)) from short
        except UnicodeDecodeError as wrong:
            raise MalformedMessage(f"a string is not UTF-8: {wrong}") from wrong

    def encode(self, message: object, head: bytes = b"") -> bytes:
        """The bytes of the message, after `head`.

        Raises  BrokerError(invalid_request), if a string is longer than Kafka's messages can hold
        """
        out = bytearray(head)
        self._kind.write(out, message)
        return bytes(out)


class VersionedCodec:
    """The codec of values that begin with their version, as in records of internal topics."""

    def __init__(
        self,
        entity: type[Any],
        *,
        newest: int = 0,
        flexible: int = 0,
        reads_newer: bool = False,
    ) -> None:
        """`flexible`: the first flexible version; `reads_newer`: read later ones as the newest."""
        self.newest = newest
        self._reads_newer = reads_newer
        self._name = entity.__name__
        self._codecs = [
            MessageCodec(entity, version=version, flexible=version >= flexible)
            for version in range(newest + 1)
        ]

    def decode(self, data: bytes | memoryview) -> Any:
        """Raises  MalformedMessage, also for a version that is not known"""
        version = self.version(data)
        if self._reads_newer:
            version = min(version, self.newest)
        if not 0 <= version <= self.newest:
            raise MalformedMessage(f"{self._name} has version {version}")
        return self._codecs[version].decode(data, _INT16.size)

    def encode(self, message: object, version: int) -> bytes:
        return self._codecs[version].encode(message, _INT16.pack(version))

    @staticmethod
    def version(data: bytes | memoryview) -> int:
        if len(data) < _INT16.size:
            raise MalformedMessage("the message ends inside its version")
        version: int = _INT16.unpack_from(data)[0]
        return version


def as_utf8(text: str) -> bytes:
    """Raises  BrokerError(invalid_request), if the text is longer than a message can hold."""
    encoded = text.encode()
    if len(encoded) > LONGEST_STRING:
        raise BrokerError(ErrorCode.invalid_request, f"a string has {len(encoded)} bytes")
    return encoded


# -- structs ---------------------------------------------------------------------------------------


@cache
def _struct_of(entity: Any, version: int, flexible: bool) -> Kind:
    plain: list[tuple[str, Read]] = []
    parts: list[Write] = []
    numbers: dict[str, struct.Struct] = {}  # one behind the other, that are written together
    tagged: dict[int, _Tagged] = {}
    for field in dataclasses.fields(entity):
        if field.metadata.get("since", 0) > version:
            continue
        kind = _field(field, version, flexible)
        if (tag := field.metadata.get("tag")) is None:
            plain.append((field.name, kind.read))
            if (number := _number_of(field)) is not None:
                numbers[field.name] = number
                continue
            parts += [*_numbers(numbers), _part(field.name, kind.write)]
            numbers = {}
        else:
            default = object() if field.metadata.get("always") else field.default
            tagged[tag] = _Tagged(field.name, kind, default)
    parts += _numbers(numbers)

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        values = {}
        for name, read_field in plain:
            values[name], position = read_field(buffer, position)
        if flexible:
            position = _read_tagged(buffer, position, tagged, values)
        return entity(**values), position

    def write(out: bytearray, value: Any) -> None:
        for write_part in parts:
            write_part(out, value)
        if flexible:
            _write_tagged(out, value, tagged)

    return Kind(read, write)


def _number_of(field: "dataclasses.Field[Any]") -> struct.Struct | None:
    is_one = nested_entity(field.type) is None and not is_array(field.type)
    return _NUMBERS.get(field.metadata["kafka_type"]) if is_one else None


def _numbers(layouts: Mapping[str, struct.Struct]) -> list[Write]:
    """The writer of numbers of a struct that stand one behind the other; none without any."""
    if not layouts:
        return []
    pack = struct.Struct(">" + "".join(each.format[-1] for each in layouts.values())).pack
    get = attrgetter(*layouts)
    if len(layouts) == 1:

        def write(out: bytearray, value: Any) -> None:
            out += pack(get(value))
    else:

        def write(out: bytearray, value: Any) -> None:
            out += pack(*get(value))

    return [write]


def _part(name: str, write_field: Write) -> Write:
    get = attrgetter(name)
    return lambda out, value: write_field(out, get(value))


def _field(field: "dataclasses.Field[Any]", version: int, flexible: bool) -> Kind:
    hint = field.type
    of_array, may_be_null = is_array(hint), is_nullable(hint)
    nested = nested_entity(hint)
    if nested is None:
        kind = _primitive(field.metadata, flexible, may_be_null and not of_array)
    else:
        kind = _struct_of(cast(Any, nested), version, flexible)
        if may_be_null and not of_array:
            kind = _nullable_tagged(kind) if "tag" in field.metadata else _nullable(kind)
    if not of_array:
        return kind
    number = _NUMBERS.get(field.metadata.get("kafka_type", ""))
    if number is None:
        return _array(kind, flexible, may_be_null)
    return _array_of_numbers(number, flexible, may_be_null)


def _nullable(of: Kind) -> Kind:
    """A struct that may be null: a byte before it is negative if it is."""

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        (marker,) = _INT8.unpack_from(buffer, position)
        return (None, position + 1) if marker < 0 else of.read(buffer, position + 1)

    def write(out: bytearray, value: Any) -> None:
        out += _INT8.pack(-1 if value is None else 1)
        if value is not None:
            of.write(out, value)

    return Kind(read, write)


def _nullable_tagged(of: Kind) -> Kind:
    """The same where it is tagged: a varint before it is zero if it is null."""

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        marker, position = read_uvarint(buffer, position)
        return of.read(buffer, position) if marker else (None, position)

    def write(out: bytearray, value: Any) -> None:
        out += uvarint(0 if value is None else 1)
        if value is not None:
            of.write(out, value)

    return Kind(read, write)


class _Tagged(NamedTuple):
    name: str
    kind: Kind
    default: object  # not written


def _read_tagged(
    buffer: Buffer, position: int, known: dict[int, _Tagged], values: dict[str, Any]
) -> int:
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        end = _within(buffer, position, size)
        if tag in known:
            values[known[tag].name] = known[tag].kind.read(buffer[:end], position)[0]
        position = end
    return position


def _write_tagged(out: bytearray, value: Any, tagged: dict[int, _Tagged]) -> None:
    if not tagged:
        out.append(0)
        return
    present = [
        (tag, kind, part)
        for tag, (name, kind, default) in tagged.items()
        if (part := getattr(value, name)) != default
    ]
    out += uvarint(len(present))
    for tag, kind, part in present:
        written = bytearray()
        kind.write(written, part)
        out += uvarint(tag) + uvarint(len(written)) + written


# -- arrays and primitives -------------------------------------------------------------------------


def _array(element: Kind, flexible: bool, may_be_null: bool) -> Kind:
    read_length, write_length = _length(_INT32, flexible)
    read_element, write_element = element

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        count, position = read_length(buffer, position)
        if count < 0 and may_be_null:
            return None, position
        # Every element has a byte at least: no more are read than there can be.
        if not 0 <= count <= min(len(buffer) - position, MOST_ELEMENTS):
            raise MalformedMessage(f"there is no array of {count} elements")
        values = []
        for _ in range(count):
            value, position = read_element(buffer, position)
            values.append(value)
        return tuple(values), position

    def write(out: bytearray, values: tuple[Any, ...] | None) -> None:
        write_length(out, -1 if values is None else len(values))
        for value in values or ():
            write_element(out, value)

    return Kind(read, write)


def _array_of_numbers(layout: struct.Struct, flexible: bool, may_be_null: bool) -> Kind:
    """All elements at once."""
    read_length, write_length = _length(_INT32, flexible)
    code, size = layout.format[-1:], layout.size

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        count, position = read_length(buffer, position)
        if count < 0:
            if may_be_null:
                return None, position
            raise MalformedMessage("an array is null that cannot be")
        end = _within(buffer, position, count * size)
        return struct.unpack_from(f">{count}{code}", buffer, position), end

    def write(out: bytearray, values: tuple[int, ...] | None) -> None:
        write_length(out, -1 if values is None else len(values))
        if values:
            out += struct.pack(f">{len(values)}{code}", *values)

    return Kind(read, write)


def _primitive(metadata: Mapping[str, Any], flexible: bool, may_be_null: bool) -> Kind:
    name = metadata["kafka_type"]
    if name in _NUMBERS:
        return _number(_NUMBERS[name])
    if name == "string":
        encode = str.encode if "long" in metadata else as_utf8
        return _sized(
            lambda data: str(data, "utf-8"), encode, _length(_INT16, flexible), may_be_null
        )
    if name == "bytes":
        return _sized(bytes, bytes, _length(_INT32, flexible), may_be_null)
    if name == "uuid":
        return _uuid(may_be_null)
    return _DURATION if name == "timedelta_i32" else _ERROR_CODE


def _number(layout: struct.Struct) -> Kind:
    unpack_from, size, pack = layout.unpack_from, layout.size, layout.pack

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        return unpack_from(buffer, position)[0], position + size

    def write(out: bytearray, value: int) -> None:
        out += pack(value)

    return Kind(read, write)


def _sized(
    decode: Callable[[Buffer], Any], encode: Callable[[Any], bytes], length: Kind, may_be_null: bool
) -> Kind:
    """A string or bytes."""
    read_length, write_length = length

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        size, position = read_length(buffer, position)
        if size < 0:
            if may_be_null:
                return None, position
            raise MalformedMessage("a value is null that cannot be")
        end = _within(buffer, position, size)
        return decode(buffer[position:end]), end

    def write(out: bytearray, value: Any) -> None:
        encoded = None if value is None else encode(value)
        write_length(out, -1 if encoded is None else len(encoded))
        out += encoded or b""

    return Kind(read, write)


def _length(layout: struct.Struct, flexible: bool) -> Kind:
    """The length of a string, bytes or an array; -1 stands for null."""
    if not flexible:
        return _number(layout)

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        value, position = read_uvarint(buffer, position)
        return value - 1, position

    def write(out: bytearray, length: int) -> None:
        out += uvarint(length + 1)

    return Kind(read, write)


def _uuid(may_be_null: bool) -> Kind:
    """Zeros stand for null."""

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        end = _within(buffer, position, 16)
        value = uuid.UUID(bytes=bytes(buffer[position:end]))
        return None if may_be_null and value == _NO_ID else value, end

    def write(out: bytearray, value: uuid.UUID | None) -> None:
        out += (value or _NO_ID).bytes

    return Kind(read, write)


def _read_error_code(buffer: Buffer, position: int) -> tuple[Any, int]:
    (number,) = _INT16.unpack_from(buffer, position)
    try:
        return ErrorCode(number), position + 2
    except ValueError as unknown:
        raise MalformedMessage(f"there is no error code {number}") from unknown


def _write_error_code(out: bytearray, code: ErrorCode) -> None:
    out += _INT16.pack(code.value)


_ERROR_CODE: Final = Kind(_read_error_code, _write_error_code)


def _read_duration(buffer: Buffer, position: int) -> tuple[Any, int]:
    (milliseconds,) = _INT32.unpack_from(buffer, position)
    return timedelta(milliseconds=milliseconds), position + 4


def _write_duration(out: bytearray, duration: timedelta) -> None:
    out += _INT32.pack(duration // timedelta(milliseconds=1))


_DURATION: Final = Kind(_read_duration, _write_duration)


def _within(buffer: Buffer, position: int, size: int) -> int:
    end = position + size
    if end > len(buffer):
        raise MalformedMessage(f"{size} bytes at {position} reach past the end")
    return end
