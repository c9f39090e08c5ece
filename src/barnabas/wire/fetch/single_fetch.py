"""A Fetch of one partition outside any session, read by hand.

librdkafka, and so most consumers, fetch without sessions; one that reads one partition sends
this again and again. `fetch_codec` reads all other requests, and `single_answer` has the response.
"""

import struct
import uuid
from typing import Final, NamedTuple

from barnabas.wire.fetch.fetch_codec import BY_TOPIC_ID, FLEXIBLE


class SingleFetch(NamedTuple):
    """The fetch of one partition; `topic` is a name, or an id from version 13 on."""

    topic: str | uuid.UUID
    partition: int
    fetch_offset: int
    max_bytes: int
    partition_max_bytes: int
    min_bytes: int
    current_leader_epoch: int
    read_committed: bool
    offset_at: int  # where in the frame the fetch offset stands


# Up to the topic's name or id: [replica], wait, min, max, isolation, session, epoch, topics.
_HEAD_V4 = struct.Struct(">iiiibih")
_HEAD_V7 = struct.Struct(">iiiibiiih")
_HEAD_V12 = struct.Struct(">iiiibiiBB")
_HEAD_V13 = struct.Struct(">iiiibiiB16s")
_HEAD_V15 = struct.Struct(">iiibiiB16s")
# From there on: partitions, index, [epoch], offset, [last epoch], [log start], max bytes.
_TAIL_V4 = struct.Struct(">iiqi")
_TAIL_V5 = struct.Struct(">iiqqi")
_TAIL_V9 = struct.Struct(">iiiqqi")
_TAIL_V12 = struct.Struct(">BiiqiqiBBBB")  # and no tags, no tags, nothing forgotten, rack's size

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")

_CONSUMER: Final = -1
_NO_SESSION: Final = -1


def read_single_fetch(version: int, frame: memoryview, position: int) -> SingleFetch | None:
    """The request if it has this form; None leaves it to `read_fetch`, also if damaged."""
    try:
        if version >= FLEXIBLE:
            return _flexible(version, frame, position)
        return _classic(version, frame, position)
    except (struct.error, UnicodeDecodeError):
        return None


def _flexible(version: int, frame: memoryview, position: int) -> SingleFetch | None:
    replica = _CONSUMER
    topic: str | uuid.UUID
    if version >= BY_TOPIC_ID:
        if version >= 15:
            _, least, most, isolation, session, epoch, topics, name = _HEAD_V15.unpack_from(
                frame, position
            )
            position += _HEAD_V15.size
        else:
            replica, _, least, most, isolation, session, epoch, topics, name = (
                _HEAD_V13.unpack_from(frame, position)
            )
            position += _HEAD_V13.size
        topic = uuid.UUID(bytes=name)
    else:
        replica, _, least, most, isolation, session, epoch, topics, length = _HEAD_V12.unpack_from(
            frame, position
        )
        if length & 0x80:
            return None
        start = position + _HEAD_V12.size
        position = start + length - 1
        topic = str(frame[start:position], "utf-8")
    one, partition, known, offset, last, _, limit, tags, more_tags, forgotten, rack = (
        _TAIL_V12.unpack_from(frame, position)
    )
    offset_at = position + 9
    position += _TAIL_V12.size
    if (
        (replica, session, epoch, topics, one, last) != (_CONSUMER, 0, _NO_SESSION, 2, 2, -1)
        or (tags, more_tags, forgotten) != (0, 0, 1)
        or rack & 0x80
        or position + rack != len(frame)
        or frame[-1] != 0
    ):
        return None
    committed = isolation == 1
    return SingleFetch(topic, partition, offset, most, limit, least, known, committed, offset_at)


def _classic(version: int, frame: memoryview, position: int) -> SingleFetch | None:
    session, epoch = 0, _NO_SESSION
    if version >= 7:
        replica, _, least, most, isolation, session, epoch, topics, length = _HEAD_V7.unpack_from(
            frame, position
        )
        position += _HEAD_V7.size
    else:
        replica, _, least, most, isolation, topics, length = _HEAD_V4.unpack_from(frame, position)
        position += _HEAD_V4.size
    if length < 0:
        return None
    topic = str(frame[position : position + length], "utf-8")
    position += length
    known = -1
    if version >= 9:
        one, partition, known, offset, _, limit = _TAIL_V9.unpack_from(frame, position)
        offset_at = position + 12
        position += _TAIL_V9.size
    elif version >= 5:
        one, partition, offset, _, limit = _TAIL_V5.unpack_from(frame, position)
        offset_at = position + 8
        position += _TAIL_V5.size
    else:
        one, partition, offset, limit = _TAIL_V4.unpack_from(frame, position)
        offset_at = position + 8
        position += _TAIL_V4.size
    if version >= 7:
        (forgotten,) = _INT.unpack_from(frame, position)
        position += 4
        if forgotten:
            return None
    if version >= 11:
        (rack,) = _SHORT.unpack_from(frame, position)
        position += 2 + rack
        if not 0 <= rack < 0x80:
            return None
    if (replica, session, epoch, topics, one) != (_CONSUMER, 0, _NO_SESSION, 1, 1):
        return None
    if position != len(frame):
        return None
    committed = isolation == 1
    return SingleFetch(topic, partition, offset, most, limit, least, known, committed, offset_at)
