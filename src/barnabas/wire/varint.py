"""Unsigned variable-length integers, and the strings and tags of flexible versions."""

from typing import Final

from barnabas.base.errors import BarnabasError

# In one section: Kafka's messages have fewer than ten, and all of them are skipped on the loop.
MOST_TAGS: Final = 1_000


class Truncated(BarnabasError):
    """A frame ends before what it announced."""


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    """The integer at `position`, and the position after it."""
    try:
        byte = buffer[position]
        if byte < 0x80:
            return byte, position + 1
        value, shift = byte & 0x7F, 7
        while True:
            position += 1
            byte = buffer[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position + 1
            shift += 7
            if shift > 28:
                raise Truncated("a varint is longer than five bytes")
    except IndexError:
        raise Truncated("the frame ends inside a varint") from None


def uvarint(value: int) -> bytes:
    """`value` as a variable-length integer."""
    if value < 0x80:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(buffer: memoryview, position: int) -> int:
    """The position after a section of tagged fields, whatever they hold."""
    count, position = read_uvarint(buffer, position)
    if count > MOST_TAGS:
        raise Truncated(f"a section has {count} tagged fields")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > len(buffer):
            raise Truncated("the frame ends inside a tagged field")
    return position
