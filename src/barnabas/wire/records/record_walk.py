"""The walk over the decompressed records of a batch: consumers can read what passes it.

It reads every length and number of every record, and copies nothing. Compiled as it is:
`record_walk.pxd` has the types.
"""

from typing import Final

from barnabas.base import buffers

# Why a walk ended early; the number is what `walk_records` returns.
FAULTS: Final = (
    "",
    "its length does not fit the batch",
    "a number in it is malformed",
    "its timestamp does not fit 64 bits",
    "its offset delta does not follow the one before",
    "a key, value or header does not fit it",
    "its fields do not end where it ends",
    "bytes follow it, and it is the last",
    "the key of a header is not UTF-8",
)
MOST_REFUSED: Final = 1_000

_LENGTH, _NUMBER, _TIMESTAMP, _OFFSET, _FIELD, _REST, _LEFT, _TEXT = range(1, 9)
_MOST_REFUSED = MOST_REFUSED
_NO_TIMESTAMP = -1
_MIN_LONG = -(2**63)
_MAX_LONG = 2**63 - 1
_INT = 32
_LONG = 64
_NO_TEXT = -2  # as a position
_SMALLEST_BODY = 6  # one byte each: attributes, two deltas, three counts
# Of records in the usual form: how many bytes are before the key at most, which are read without a
# look at the end; the greatest difference of timestamps; how many there are at most in a batch.
_USUAL_HEAD = 10  # length 2, attributes 1, timestamp 2, offset 3, length of the key 2
_USUAL_DELTA = 2**13
_MOST_USUAL = 2**20
_FAR_FROM_LIMITS = 2**62


def walk_records(
    view: memoryview,
    start: int,
    end: int,
    count: int,
    last_delta: int,
    base_timestamp: int,
    needs_key: bool = False,
    earliest: int = _MIN_LONG,
    latest: int = _MAX_LONG,
    refused: list[tuple[int, bool, int]] | None = None,
) -> tuple[int, int, int]:
    """Walk over `count` records from `start` to `end`.

    Offset deltas must rise, and none be above `last_delta`: those of a producer rise one by one,
    since its count is `last_delta` + 1. Return a fault (an index of FAULTS, 0 for none), the
    record that has it, and the greatest timestamp.

    Records without a key where `needs_key`, or with a timestamp not within `earliest` and `latest`,
    are no fault: the first MOST_REFUSED of them are added to `refused`, as the record's number,
    whether it is the key that is missing, and the timestamp.
    """
    size = end - start
    data = buffers.memory(view, start, size)
    position = 0
    previous = -1
    greatest = _NO_TIMESTAMP
    may_be_usual = (
        not needs_key
        and -_FAR_FROM_LIMITS < base_timestamp < _FAR_FROM_LIMITS
        and base_timestamp - _USUAL_DELTA >= earliest
        and base_timestamp + _USUAL_DELTA <= latest
    )
    most_usual = min(count, last_delta + 1, _MOST_USUAL) if may_be_usual else 0
    index = 0
    while index < count:
        if index < most_usual and previous == index - 1:
            after, position, delta = _usual_records(data, position, size, index, most_usual)
            if after > index:
                greatest = max(greatest, base_timestamp + delta)
                index = after
                previous = index - 1
                continue
            # Records with headers rarely come alone: none of the others is tried in vain.
            most_usual = 0
        length, position = buffers.varint_at(data, position, size, _INT)
        if position < 0 or length < _SMALLEST_BODY or length > size - position:
            return _LENGTH, index, greatest
        record_end = position + length
        delta, position = buffers.varint_at(data, position + 1, record_end, _LONG)
        if position < 0:
            return _NUMBER, index, greatest
        if base_timestamp > _MAX_LONG - delta if delta > 0 else base_timestamp < _MIN_LONG - delta:
            return _TIMESTAMP, index, greatest
        timestamp = base_timestamp + delta
        if timestamp > greatest:
            greatest = timestamp
        delta, position = buffers.varint_at(data, position, record_end, _INT)
        if position < 0:
            return _NUMBER, index, greatest
        if delta <= previous or delta > last_delta:
            return _OFFSET, index, greatest
        previous = delta
        key_length, position = buffers.varint_at(data, position, record_end, _INT)
        if position < 0 or key_length < -1:
            return _FIELD, index, greatest
        if key_length > 0:
            position += key_length
        length, position = buffers.varint_at(data, position, record_end, _INT)
        if position < 0 or length < -1:
            return _FIELD, index, greatest
        if length > 0:
            position += length
        header_count, position = buffers.varint_at(data, position, record_end, _INT)
        if header_count and position >= 0:
            position = _after_headers(data, position, record_end, header_count)
        if position < 0:
            return _TEXT if position == _NO_TEXT else _FIELD, index, greatest
        if position != record_end:
            return _REST, index, greatest
        if (
            refused is not None
            and (
                (needs_key and key_length < 0)
                or ((timestamp < earliest or timestamp > latest) and timestamp != _NO_TIMESTAMP)
            )
            and len(refused) < _MOST_REFUSED
        ):
            refused.append((index, needs_key and key_length < 0, timestamp))
        index += 1
    if position != size:
        return _LEFT, count - 1, greatest
    return 0, 0, greatest


def _usual_records(
    data: memoryview, position: int, end: int, index: int, most: int
) -> tuple[int, int, int]:
    """Walk over records of the usual form, from the one of that index on.

    Those have no headers, their index as offset delta, and other numbers of one byte or two. Return
    the index of the first that is unusual or faulty, or `most`; its position; and the greatest
    difference of timestamps. Reading a number as `varint_at` does costs twice as much.
    """
    greatest = -_USUAL_DELTA
    while index < most and position + _USUAL_HEAD <= end:
        length = data[position]
        at = position + 1
        if length >= 0x80:
            byte = data[at]
            if byte >= 0x80:
                break
            length = (length & 0x7F) | (byte << 7)
            at += 1
        record_end = at + (length >> 1)
        if length & 1 or record_end > end:
            break
        delta = data[at + 1]
        at += 2
        if delta >= 0x80:
            byte = data[at]
            if byte >= 0x80:
                break
            delta = (delta & 0x7F) | (byte << 7)
            at += 1
        offset = index << 1
        if offset < 0x80:
            if data[at] != offset:
                break
            at += 1
        elif data[at] != (offset & 0x7F) | 0x80:
            break
        elif offset < 0x4000:
            if data[at + 1] != offset >> 7:
                break
            at += 2
        elif data[at + 1] != ((offset >> 7) & 0x7F) | 0x80 or data[at + 2] != offset >> 14:
            break
        else:
            at += 3
        length = data[at]
        at += 1
        if length >= 0x80:
            byte = data[at]
            if byte >= 0x80:
                break
            length = (length & 0x7F) | (byte << 7)
            at += 1
        if not length & 1:
            at += length >> 1
        elif length != 1:  # no key
            break
        if at + 2 > record_end:
            break
        length = data[at]
        at += 1
        if length >= 0x80:
            byte = data[at]
            if byte >= 0x80:
                break
            length = (length & 0x7F) | (byte << 7)
            at += 1
        if not length & 1:
            at += length >> 1
        elif length != 1:  # no value
            break
        if at + 1 != record_end or data[at]:
            break
        delta = (delta >> 1) ^ -(delta & 1)
        if delta > greatest:
            greatest = delta
        position = record_end
        index += 1
    return index, position, greatest


def _after_headers(data: memoryview, position: int, end: int, count: int) -> int:
    """The position after `count` headers; negative if one is malformed, or has no UTF-8 key.

    Clients in Python and others decode the keys, and stop at one that they cannot decode.
    """
    if count < 0:
        return -1
    for _ in range(count):
        length, position = buffers.varint_at(data, position, end, _INT)
        if position < 0 or length < 0 or length > end - position:
            return -1
        if not _is_utf8(data, position, position + length):
            return _NO_TEXT
        length, position = buffers.varint_at(data, position + length, end, _INT)
        if position < 0 or length < -1:
            return -1
        if length > 0:
            position += length
    return position


def _is_utf8(data: memoryview, position: int, end: int) -> bool:
    while position < end:
        byte = data[position]
        position += 1
        if byte < 0x80:
            continue
        if byte < 0xC2 or byte > 0xF4:
            return False
        after = position + (1 if byte < 0xE0 else 2 if byte < 0xF0 else 3)
        if after > end:
            return False
        # The second byte bounds the code point: no overlong form, no surrogate, at most U+10FFFF.
        least = 0xA0 if byte == 0xE0 else 0x90 if byte == 0xF0 else 0x80
        most = 0x9F if byte == 0xED else 0x8F if byte == 0xF4 else 0xBF
        if data[position] < least or data[position] > most:
            return False
        position += 1
        while position < after:
            if data[position] & 0xC0 != 0x80:
                return False
            position += 1
    return True
