"""The whole batches at the beginning of a part of a log, if these are few.

Compiled as it is: `batch_walk.pxd` has the types.
"""

from typing import Final

from barnabas.base import buffers
from barnabas.wire.records import batch

# An index finds more than these sooner than a walk from one to the next.
MOST_WALKED: Final = 8
_MOST_WALKED = MOST_WALKED
_HEADER_SIZE = batch.HEADER_SIZE
_LOG_OVERHEAD = batch.LOG_OVERHEAD
_LAST_OFFSET_DELTA = 23


def whole_batches(data: memoryview, upto: int) -> tuple[int, int]:
    """The size of the whole batches that end before `upto`, and the offset after them.

    (0, 0) if there is not even one. The size is -1 if there are too many, or something else.
    """
    end = len(data)
    position = next_offset = 0
    for _ in range(_MOST_WALKED):
        if position + _HEADER_SIZE > end:
            return position, next_offset
        length = buffers.int_at(data, position + 8)
        if length < _HEADER_SIZE - _LOG_OVERHEAD:
            return -1, 0
        after = position + _LOG_OVERHEAD + length
        last_offset = buffers.long_at(data, position)
        last_offset += buffers.int_at(data, position + _LAST_OFFSET_DELTA)
        if after > end or last_offset >= upto:
            return position, next_offset
        position = after
        next_offset = last_offset + 1
    if position + _HEADER_SIZE > end:
        return position, next_offset
    return -1, 0
