"""The whole batches at the beginning of some bytes of a log, if there are not many of them."""

from struct import Struct
from typing import Final

from barnabas.base.twins import use_compiled
from barnabas.wire.records.batch import HEADER_SIZE, LOG_OVERHEAD

# More than these are found sooner by an index than by going from one to the next.
MOST_WALKED: Final = 8
_HEAD_AND_DELTA = Struct(">qi11xi")  # base offset, length, last offset delta


def whole_batches(data: memoryview, upto: int) -> tuple[int, int] | None:
    """How many bytes are whole batches that end before `upto`, and the offset after them.

    (0, 0) if not even one is. None if there are too many, or something that is no batch.
    """
    end, position, next_offset = len(data), 0, 0
    for _ in range(MOST_WALKED):
        if position + HEADER_SIZE > end:
            return position, next_offset
        base_offset, length, last_offset_delta = _HEAD_AND_DELTA.unpack_from(data, position)
        if length < HEADER_SIZE - LOG_OVERHEAD:
            return None
        after = position + LOG_OVERHEAD + length
        if after > end or base_offset + last_offset_delta >= upto:
            return position, next_offset
        position, next_offset = after, base_offset + last_offset_delta + 1
    return (position, next_offset) if position + HEADER_SIZE > end else None


use_compiled(globals(), "barnabas.wire.records._batch_walk", "whole_batches")
