"""The header of an lz4 frame, whose checksum is wrong in messages of magic 0 (KAFKA-3160).

Clients of Kafka 0.8 and 0.9 computed it from the first byte of the frame on, instead of from the
fifth. Kafka does not look at it in such messages; the decompressor does.
"""

import struct
from typing import Final

_FLAGS_AT: Final = 4  # after the magic number of the frame
_HAS_SIZE: Final = 0x08
_HAS_DICTIONARY: Final = 0x01
_SEED: Final = 0
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_WORD: Final = 0xFFFFFFFF


def with_right_checksum(frame: bytes) -> bytes:
    """The frame with the checksum of its header as it should be."""
    if len(frame) <= _FLAGS_AT:
        return frame
    flags = frame[_FLAGS_AT]
    at = 6 + (8 if flags & _HAS_SIZE else 0) + (4 if flags & _HAS_DICTIONARY else 0)
    checksum = xxh32_of_few(frame[_FLAGS_AT:at]) >> 8 & 0xFF
    return frame[:at] + bytes((checksum,)) + frame[at + 1 :]


def xxh32_of_few(data: bytes) -> int:
    """The hash XXH32 of fewer than 16 bytes."""
    first, second, third, fourth, fifth = _PRIMES
    whole = len(data) // 4 * 4
    value = _SEED + fifth + len(data)
    for (number,) in struct.iter_unpack("<I", data[:whole]):
        value = _rotated(value + number * third, 17) * fourth
    for byte in data[whole:]:
        value = _rotated(value + byte * fifth, 11) * first
    value &= _WORD
    value = (value ^ value >> 15) * second & _WORD
    value = (value ^ value >> 13) * third & _WORD
    return value ^ value >> 16


def _rotated(value: int, by: int) -> int:
    value &= _WORD
    return (value << by | value >> 32 - by) & _WORD
