"""Fetch on the client's side, by hand: records stay where the socket wrote them.

Versions 12 to 17. Version 12 names topics by their names: it is for brokers of Kafka before 3.1,
and for topics to which a controller before 2.8 gave no ids. All later ones name topics by id, so
a topic that was deleted and created again is never read in place of the former one.
"""

import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.client.frames import MalformedResponse, request_header, sized
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import NO_REPLICA, FetchTopic, ForgottenTopic
from barnabas.wire.varint import Truncated, read_uvarint, skip_tags, uvarint

NEWEST: Final = 17
BY_NAME: Final = 12
NO_SESSION: Final = -1
_REPLICA_STATE_VERSION: Final = 15  # the first that has the replica id in a tagged field


@dataclass(frozen=True, slots=True)
class Fetch:
    """A Fetch request of a consumer or a follower, outside of a session or in one."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    topics: Sequence[FetchTopic]
    forgotten: Sequence[ForgottenTopic] = ()
    session_id: int = 0
    session_epoch: int = NO_SESSION
    read_committed: bool = False
    replica_id: int = NO_REPLICA
    replica_epoch: int = -1


class DivergingEpoch(NamedTuple):
    """The leader's log has this epoch only up to `end_offset`: the follower truncates there."""

    epoch: int
    end_offset: int


class CurrentLeader(NamedTuple):
    """The leader to ask instead; -1 if it is unknown."""

    leader_id: int
    leader_epoch: int


class FetchedPartition(NamedTuple):
    """The response for one partition; its topic by id or by name, as in the request.

    `aborted` are the aborted transactions among the records, as (producer id, first offset).
    """

    topic: uuid.UUID | str
    partition: int
    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: DivergingEpoch | None
    current_leader: CurrentLeader | None
    records: memoryview
    aborted: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True)
class FetchResponse:
    error: ErrorCode
    session_id: int
    partitions: list[FetchedPartition]


# Longest wait, fewest and most bytes, isolation level, session id and epoch.
_LIMITS = struct.Struct(">iiibii")
_PARTITION = struct.Struct(">iiqiqi")
_REPLICA_ID = struct.Struct(">i")
_REPLICA_STATE = struct.Struct(">iq")
_NO_RACK_ID: Final = uvarint(1)
# One tag, the replica's state; its size includes the byte that says it has no tags itself.
_REPLICA_STATE_TAG: Final = b"\1\1" + uvarint(_REPLICA_STATE.size + 1)


def write_fetch_request(version: int, correlation_id: int, client_id: str, fetch: Fetch) -> bytes:
    """The whole frame, size first."""
    by_name = version <= BY_NAME
    out = request_header(ApiKey.FETCH, version, correlation_id, client_id)
    if version < _REPLICA_STATE_VERSION:
        out += _REPLICA_ID.pack(fetch.replica_id)
    out += _LIMITS.pack(
        fetch.max_wait_ms,
        fetch.min_bytes,
        fetch.max_bytes,
        fetch.read_committed,
        fetch.session_id,
        fetch.session_epoch,
    )
    out += uvarint(len(fetch.topics) + 1)
    for topic in fetch.topics:
        out += _name_or_id(topic, by_name=by_name)
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
        out += _name_or_id(forgotten, by_name=by_name)
        out += uvarint(count + 1) + struct.pack(f">{count}i", *forgotten.partitions) + b"\0"
    out += _NO_RACK_ID
    is_default = fetch.replica_id == NO_REPLICA and fetch.replica_epoch == -1
    if version < _REPLICA_STATE_VERSION or is_default:
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
_ABORTED = struct.Struct(">qq")
_PREFERRED_REPLICA_BYTES: Final = 4


def read_fetch_response(version: int, response: memoryview) -> FetchResponse:
    """The message in `response`, all that follows the correlation id; records are slices of it.

    Raises  MalformedResponse, if it is cut short or not a response to Fetch
    """
    by_name = version <= BY_NAME
    try:
        position = skip_tags(response, 0)
        _, code, session_id = _THROTTLE_ERROR_SESSION.unpack_from(response, position)
        partitions: list[FetchedPartition] = []
        count, position = read_uvarint(response, position + _THROTTLE_ERROR_SESSION.size)
        for _ in range(count - 1):
            topic, position = _read_name_or_id(response, position, by_name=by_name)
            position = _read_partitions(response, position, topic, partitions)
        skip_tags(response, position)
    except (struct.error, Truncated, UnicodeDecodeError) as e:
        raise MalformedResponse(f"FETCH v{version}: {e}") from None
    return FetchResponse(_error(code), session_id, partitions)


def _read_name_or_id(
    response: memoryview, position: int, *, by_name: bool
) -> tuple[uuid.UUID | str, int]:
    if by_name:
        size, position = read_uvarint(response, position)
        end = _within(response, position + max(0, size - 1))
        return str(response[position:end], "utf-8"), end
    end = _within(response, position + 16)
    return uuid.UUID(bytes=bytes(response[position:end])), end


def _read_partitions(
    response: memoryview, position: int, topic: uuid.UUID | str, partitions: list[FetchedPartition]
) -> int:
    count, position = read_uvarint(response, position)
    for _ in range(count - 1):
        fetched, position = _read_partition(response, position, topic)
        partitions.append(fetched)
    return skip_tags(response, position)


def _read_partition(
    response: memoryview, position: int, topic: uuid.UUID | str
) -> tuple[FetchedPartition, int]:
    partition, code, high_watermark, last_stable_offset, log_start_offset = _FETCHED.unpack_from(
        response, position
    )
    count, position = read_uvarint(response, position + _FETCHED.size)
    aborted: Sequence[tuple[int, int]] = ()
    if count > 1:
        aborted, position = _read_aborted(response, position, count - 1)
    size, position = read_uvarint(response, position + _PREFERRED_REPLICA_BYTES)
    end = _within(response, position + max(0, size - 1))
    records = response[position:end]
    diverging_epoch, current_leader, position = _read_tags(response, end)
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
        aborted,
    )
    return fetched, position


def _read_aborted(
    response: memoryview, position: int, count: int
) -> tuple[list[tuple[int, int]], int]:
    aborted = []
    for _ in range(count):
        aborted.append(_ABORTED.unpack_from(response, position))
        position = skip_tags(response, position + _ABORTED.size)
    return aborted, position


def _read_tags(
    response: memoryview, position: int
) -> tuple[DivergingEpoch | None, CurrentLeader | None, int]:
    """The partition's tagged fields; an epoch below 0 stands for one that was not sent."""
    diverging_epoch = current_leader = None
    count, position = read_uvarint(response, position)
    for _ in range(count):
        tag, position = read_uvarint(response, position)
        size, position = read_uvarint(response, position)
        end = _within(response, position + size)
        value = response[position:end]
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


def _within(response: memoryview, position: int) -> int:
    if position > len(response):
        raise Truncated("a field reaches past the end of the response")
    return position


_ERRORS: Final = {int(code): code for code in ErrorCode}


def _error(code: int) -> ErrorCode:
    """A code that only newer brokers know is an unknown error, as in Kafka."""
    return _ERRORS.get(code, ErrorCode.unknown_server_error)
