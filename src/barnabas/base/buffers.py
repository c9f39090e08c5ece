"""Big-endian integers and slices of a memoryview: the leaf functions of the hot path.

`buffers.pyx` is the compiled version: the same functions in C, over the memory of the view.
Positions are not negative; one beyond the view is a struct.error.
"""

from struct import Struct
from struct import error as StructError
from typing import Final

from barnabas.base.checksum import crc32c

_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_UINT: Final = Struct(">I")
_LONG: Final = Struct(">q")
_LONGS: Final = Struct(">qqq")


class BufferSlice:
    """`size` bytes of a memoryview, from `at` on."""

    __slots__ = ("at", "size", "view")

    view: memoryview
    at: int
    size: int


def memory(view: memoryview, at: int, size: int) -> memoryview:
    """`size` bytes of the view from `at` on, to be indexed; in C a pointer to the first."""
    if at < 0 or size < 0 or at + size > len(view):
        raise StructError(f"{len(view)} bytes have no {size} at {at}")
    return view[at : at + size]


def byte_at(view: memoryview, at: int) -> int:
    if at >= len(view):
        raise StructError(f"{len(view)} bytes have none at {at}")
    return view[at]


def short_at(view: memoryview, at: int) -> int:
    value: int = _SHORT.unpack_from(view, at)[0]
    return value


def int_at(view: memoryview, at: int) -> int:
    value: int = _INT.unpack_from(view, at)[0]
    return value


def uint_at(view: memoryview, at: int) -> int:
    value: int = _UINT.unpack_from(view, at)[0]
    return value


def long_at(view: memoryview, at: int) -> int:
    value: int = _LONG.unpack_from(view, at)[0]
    return value


def put_int(view: memoryview, at: int, value: int) -> None:
    """Write an int32. Raises struct.error if it is none."""
    _INT.pack_into(view, at, value)


def put_long(view: memoryview, at: int, value: int) -> None:
    _LONG.pack_into(view, at, value)


def bytes_at(view: memoryview, start: int, end: int) -> bytes:
    """A copy of the bytes from `start` up to `end`, both within the view."""
    if not start <= end <= len(view):
        raise StructError(f"{len(view)} bytes have none from {start} to {end}")
    return bytes(view[start:end])


def are_equal(view: memoryview, one: int, other: int, size: int) -> bool:
    """Return whether `size` bytes from `one` on are those from `other` on."""
    return bytes_at(view, one, one + size) == bytes_at(view, other, other + size)


def is_at(view: memoryview, start: int, end: int, expected: bytes) -> bool:
    """Return whether the bytes from `start` up to `end` are the expected ones."""
    return bytes_at(view, start, end) == expected


def crc_of(view: memoryview, start: int, end: int) -> int:
    """The CRC-32C of the bytes from `start` up to `end`."""
    return crc32c(view[start:end])


def varint_at(memory: memoryview, position: int, end: int, bits: int) -> tuple[int, int]:
    """The zigzag varint of so many bits at `position`, and the position after it.

    That position is -1 if the varint is too long or reaches beyond `end`.
    """
    value = shift = 0
    while position < end and shift < bits:
        byte = memory[position]
        if shift + 7 > bits and byte >> (bits - shift):
            return 0, -1
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    return 0, -1


def uvarint(value: int) -> bytes:
    """`value`, an unsigned int32, as a variable-length integer."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def filled(
    template: bytes,
    size: int,
    correlation_id: int,
    at: int,
    longs: int,
    first: int,
    second: int,
    third: int,
    end: bytes,
) -> bytes:
    """A response: a copy of `template` with its numbers, and `end` behind it.

    The size is at 0, the correlation id at 4, and `longs` bytes (16 or 24) of int64s at `at`.
    """
    return b"".join(
        (
            _INT.pack(size),
            _INT.pack(correlation_id),
            template[8:at],
            _LONGS.pack(first, second, third)[:longs],
            template[at + longs :],
            end,
        )
    )
