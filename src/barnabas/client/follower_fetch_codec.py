"""The follower's side of Fetch, by hand: records stay where the socket wrote them.

Brokers speak version 17 with each other, which names topics by id. Where a controller of Kafka's
before 2.8 gave topics none, it is version 12, which names them by name. What is written and read
here agrees with kio's schemas of both: a test compares them.
"""

import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.client.requests import MalformedResponse, request_header, sized
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import FetchTopic, ForgottenTopic
from barnabas.wire.varint import Truncated, read_uvarint, skip_tags, uvarint

VERSION: Final = 17
VERSION_BY_NAME: Final = 12


@dataclass(frozen=True, slots=True)
class FollowerFetch:
    """What a follower asks; topics are all named by their ids, or all by their names."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    topics: Sequence[FetchTopic]
    forgotten: Sequence[ForgottenTopic] = ()
    session_id: int = 0
    session_epoch: int = -1
    replica_epoch: int = -1
    by_name: bool = False


class DivergingEpoch(NamedTuple):
    """The leader's log has no more of this epoch than up to `end_offset`: truncate and go on."""

    epoch: int
    end_offset: int


class CurrentLeader(NamedTuple):
    """Whom to ask instead; -1 if that is unknown."""

    leader_id: int
    leader_epoch: int


class FetchedPartition(NamedTuple):
    """The leader's answer for one partition; its topic by id or by name, as it was asked for."""

    topic: uuid.UUID | str
    partition: int
    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: DivergingEpoch | None
    current_leader: CurrentLeader | None
    records: memoryview


@dataclass(frozen=True, slots=True)
class FollowerFetched:
    error: ErrorCode
    session_id: int
    partitions: list[FetchedPartition]


# Longest wait, fewest and most bytes, isolation level, session id and epoch.
_LIMITS = struct.Struct(">iiibii")
_PARTITION = struct.Struct(">iiqiqi")
_REPLICA_ID = struct.Struct(">i")
_REPLICA_STATE = struct.Struct(">iq")
_READ_UNCOMMITTED: Final = 0
_NO_RACK_ID: Final = uvarint(1)
# One tag, the replica's state; its size with the byte that says it has no tags itself.
_REPLICA_STATE_TAG: Final = b"\1\1" + uvarint(_REPLICA_STATE.size + 1)


def write_fetch_request(correlation_id: int, client_id: str, fetch: FollowerFetch) -> bytes:
    """The whole frame, size first."""
    version = VERSION_BY_NAME if fetch.by_name else VERSION
    out = request_header(ApiKey.FETCH, version, correlation_id, client_id)
    if fetch.by_name:
        out += _REPLICA_ID.pack(fetch.replica_id)
    out += _LIMITS.pack(
        fetch.max_wait_ms,
        fetch.min_bytes,
        fetch.max_bytes,
        _READ_UNCOMMITTED,
        fetch.session_id,
        fetch.session_epoch,
    )
    out += uvarint(len(fetch.topics) + 1)
    for topic in fetch.topics:
        out += _name_or_id(topic, by_name=fetch.by_name)
        out += uvarint(len(topic.partitions) + 1)
        for partition, offset, max_bytes, leader_epoch, last_epoch, log_start in topic.partitions:
            out += _PARTITION.pack(
                partition, leader_epoch, offset, last_epoch, log_start, max_bytes
            )
            out += b"\0"
        out += b"\0"
    out += uvarint(len(fetch.forgotten) + 1)
    for forgotten in fetch.forgotten:
        count = len(forgotten.partitions)
        out += _name_or_id(forgotten, by_name=fetch.by_name)
        out += uvarint(count + 1) + struct.pack(f">{count}i", *forgotten.partitions) + b"\0"
    out += _NO_RACK_ID
    if fetch.by_name:
        out += b"\0"
    else:
        state = _REPLICA_STATE.pack(fetch.replica_id, fetch.replica_epoch)
        out += _REPLICA_STATE_TAG + state + b"\0"
    return sized(out)


def _name_or_id(topic: FetchTopic | ForgottenTopic, *, by_name: bool) -> bytes:
    if by_name:
        name = (topic.name or "").encode()
        return uvarint(len(name) + 1) + name
    return topic.topic_id.bytes if topic.topic_id else bytes(16)


_THROTTLE_ERROR_SESSION = struct.Struct(">ihi")
_FETCHED = struct.Struct(">ihqqq")
_DIVERGING_EPOCH = struct.Struct(">iq")
_CURRENT_LEADER = struct.Struct(">ii")
_DIVERGING_EPOCH_TAG: Final = 0
_CURRENT_LEADER_TAG: Final = 1
_ABORTED_BYTES: Final = 16
_PREFERRED_REPLICA_BYTES: Final = 4


def read_fetch_response(answer: memoryview, *, by_name: bool = False) -> FollowerFetched:
    """What `answer`, all that follows the correlation id, says; records are slices of it.

    Raises  MalformedResponse, if it is cut short or no answer to Fetch
    """
    try:
        position = skip_tags(answer, 0)
        _, code, session_id = _THROTTLE_ERROR_SESSION.unpack_from(answer, position)
        partitions: list[FetchedPartition] = []
        count, position = read_uvarint(answer, position + _THROTTLE_ERROR_SESSION.size)
        for _ in range(count - 1):
            topic, position = _read_name_or_id(answer, position, by_name=by_name)
            position = _read_partitions(answer, position, topic, partitions)
        skip_tags(answer, position)
    except (struct.error, Truncated, UnicodeDecodeError) as e:
        version = VERSION_BY_NAME if by_name else VERSION
        raise MalformedResponse(f"FETCH v{version}: {e}") from None
    return FollowerFetched(_error(code), session_id, partitions)


def _read_name_or_id(
    answer: memoryview, position: int, *, by_name: bool
) -> tuple[uuid.UUID | str, int]:
    if by_name:
        size, position = read_uvarint(answer, position)
        end = _within(answer, position + max(0, size - 1))
        return str(answer[position:end], "utf-8"), end
    end = _within(answer, position + 16)
    return uuid.UUID(bytes=bytes(answer[position:end])), end


def _read_partitions(
    answer: memoryview, position: int, topic: uuid.UUID | str, partitions: list[FetchedPartition]
) -> int:
    count, position = read_uvarint(answer, position)
    for _ in range(count - 1):
        fetched, position = _read_partition(answer, position, topic)
        partitions.append(fetched)
    return skip_tags(answer, position)


def _read_partition(
    answer: memoryview, position: int, topic: uuid.UUID | str
) -> tuple[FetchedPartition, int]:
    partition, code, high_watermark, last_stable_offset, log_start_offset = _FETCHED.unpack_from(
        answer, position
    )
    # A follower takes aborted transactions from the records themselves.
    aborted, position = read_uvarint(answer, position + _FETCHED.size)
    for _ in range(aborted - 1):
        position = skip_tags(answer, position + _ABORTED_BYTES)
    size, position = read_uvarint(answer, position + _PREFERRED_REPLICA_BYTES)
    end = _within(answer, position + max(0, size - 1))
    records = answer[position:end]
    diverging_epoch, current_leader, position = _read_tags(answer, end)
    fetched = FetchedPartition(
        topic,
        partition,
        _error(code),
        high_watermark,
        last_stable_offset,
        log_start_offset,
        diverging_epoch,
        current_leader,
        records,
    )
    return fetched, position


def _read_tags(
    answer: memoryview, position: int
) -> tuple[DivergingEpoch | None, CurrentLeader | None, int]:
    """The partition's tagged fields; an epoch below 0 stands for one that was not sent."""
    diverging_epoch = current_leader = None
    count, position = read_uvarint(answer, position)
    for _ in range(count):
        tag, position = read_uvarint(answer, position)
        size, position = read_uvarint(answer, position)
        end = _within(answer, position + size)
        value = answer[position:end]
        if tag == _DIVERGING_EPOCH_TAG:
            diverging_epoch = DivergingEpoch(*_DIVERGING_EPOCH.unpack_from(value))
            if diverging_epoch.epoch < 0:
                diverging_epoch = None
        elif tag == _CURRENT_LEADER_TAG:
            current_leader = CurrentLeader(*_CURRENT_LEADER.unpack_from(value))
            if current_leader.leader_epoch < 0:
                current_leader = None
        position = end
    return diverging_epoch, current_leader, position


def _within(answer: memoryview, position: int) -> int:
    if position > len(answer):
        raise Truncated("a field reaches past the end of the answer")
    return position


_ERRORS: Final = {int(code): code for code in ErrorCode}


def _error(code: int) -> ErrorCode:
    """A code that a newer broker knows is an unknown error to us, as in Kafka."""
    return _ERRORS.get(code, ErrorCode.unknown_server_error)
