"""Fetch by hand: the answer is a list of buffers, records among them as the log gave them.

Requests are read with kio, whose reader is native, and brought to one form; the answer
is written here because kio's writer would copy every record into one buffer.
"""

import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import MalformedRequest, milliseconds, read_as_sent
from barnabas.wire.varint import uvarint

FLEXIBLE: Final = 12
BY_TOPIC_ID: Final = 13

Buffer = bytes | bytearray | memoryview


class FetchPartition(NamedTuple):
    """What is wanted of one partition."""

    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


class FetchTopic(NamedTuple):
    """A topic by name up to version 12, by id from then on; the other one is None."""

    name: str | None
    topic_id: uuid.UUID | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    name: str | None
    topic_id: uuid.UUID | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FetchRequest:
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str


def read_fetch(version: int, body: memoryview) -> FetchRequest:
    """The request in `body`. Raises MalformedRequest if it is not one."""
    sent = read_as_sent(ApiKey.FETCH, version, body)
    if sent.topics is None:
        raise MalformedRequest("FETCH: topics are null")
    by_id = version >= BY_TOPIC_ID
    return FetchRequest(
        replica_id=sent.replica_id if version < 15 else sent.replica_state.replica_id,
        max_wait_ms=milliseconds(sent.max_wait),
        min_bytes=sent.min_bytes,
        max_bytes=sent.max_bytes,
        read_committed=sent.isolation_level == 1,
        session_id=sent.session_id if version >= 7 else 0,
        session_epoch=sent.session_epoch if version >= 7 else -1,
        topics=[
            FetchTopic(
                None if by_id else topic.topic,
                topic.topic_id if by_id else None,
                [
                    FetchPartition(
                        wanted.partition,
                        wanted.fetch_offset,
                        wanted.partition_max_bytes,
                        wanted.current_leader_epoch if version >= 9 else -1,
                        wanted.last_fetched_epoch if version >= 12 else -1,
                        wanted.log_start_offset if version >= 5 else -1,
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in sent.topics
        ],
        forgotten=[
            ForgottenTopic(
                None if by_id else topic.topic,
                topic.topic_id if by_id else None,
                topic.partitions,
            )
            for topic in (sent.forgotten_topics_data if version >= 7 else ())
        ],
        rack_id=sent.rack_id if version >= 11 else "",
    )


class PartitionFetched(NamedTuple):
    """The answer for one partition; `records` goes out as it is."""

    partition: int
    code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Buffer = b""
    aborted: tuple[tuple[int, int], ...] | None = None
    diverging_epoch: tuple[int, int] | None = None  # epoch, end offset


class TopicFetched(NamedTuple):
    name: str | None
    topic_id: uuid.UUID | None
    partitions: list[PartitionFetched]


_FRAME = struct.Struct(">ii")
_THROTTLE_ERROR_SESSION = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqq")
_PARTITION_V4 = struct.Struct(">ihqq")
_INT = struct.Struct(">i")
_ABORTED = struct.Struct(">qq")
_NO_PREFERRED_REPLICA = _INT.pack(-1)


def write_fetch(
    version: int,
    correlation_id: int,
    topics: Sequence[TopicFetched],
    code: int = 0,
    session_id: int = 0,
) -> list[Buffer]:
    """The whole response, size first, as buffers to be sent one after another."""
    flexible = version >= FLEXIBLE
    out: list[Buffer] = []
    head = bytearray(8)
    if flexible:
        head += b"\0"
    if version >= 7:
        head += _THROTTLE_ERROR_SESSION.pack(0, code, session_id)
    else:
        head += b"\0\0\0\0"
    head += _count(len(topics), flexible)
    total = 0
    for topic in topics:
        if version >= BY_TOPIC_ID:
            head += topic.topic_id.bytes if topic.topic_id else bytes(16)
        else:
            name = (topic.name or "").encode()
            head += (uvarint(len(name) + 1) if flexible else struct.pack(">h", len(name))) + name
        head += _count(len(topic.partitions), flexible)
        for partition in topic.partitions:
            _partition_head(head, version, partition, flexible)
            if partition.records:
                total += len(head) + len(partition.records)
                out.append(head)
                out.append(partition.records)
                head = bytearray()
            if flexible:
                _partition_tags(head, partition)
        if flexible:
            head += b"\0"
    if flexible:
        head += b"\0"
    out.append(head)
    total += len(head)
    first = out[0]
    assert isinstance(first, bytearray)
    _FRAME.pack_into(first, 0, total - 4, correlation_id)
    return out


def _count(count: int, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else _INT.pack(count)


def _partition_head(head: bytearray, version: int, got: PartitionFetched, flexible: bool) -> None:
    if version >= 5:
        head += _PARTITION.pack(*got[:5])
    else:
        head += _PARTITION_V4.pack(*got[:4])
    if got.aborted is None:
        head += b"\0" if flexible else b"\xff\xff\xff\xff"
    else:
        head += _count(len(got.aborted), flexible)
        for producer_id, first_offset in got.aborted:
            head += _ABORTED.pack(producer_id, first_offset)
            if flexible:
                head += b"\0"
    if version >= 11:
        head += _NO_PREFERRED_REPLICA
    head += _count(len(got.records), flexible)


def _partition_tags(head: bytearray, got: PartitionFetched) -> None:
    if got.diverging_epoch is None:
        head += b"\0"
    else:
        head += b"\1\0\x0d" + struct.pack(">iq", *got.diverging_epoch) + b"\0"
