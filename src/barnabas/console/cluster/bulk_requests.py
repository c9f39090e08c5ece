"""Requests about very many partitions, written and read by hand: offsets, sizes, committed offsets.

With an object for each of 50,000 partitions a page would wait for seconds. Each request is spoken
in one flexible version, which Kafka has from 3.0 to 4.x.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from barnabas.base.ids import TopicPartition, by_topic
from barnabas.client.frames import request_header, sized
from barnabas.wire.apis import ApiKey
from barnabas.wire.varint import Truncated, read_uvarint, skip_tags, uvarint

# The errors of reading a response that is cut short.
CUT_SHORT: Final = (struct.error, Truncated, IndexError, UnicodeDecodeError)
# Partitions in one request: a broker answers others meanwhile.
AT_ONCE: Final = 2_000
_GROUPS_AT_ONCE: Final = 50
_LIST_OFFSETS: Final = 6
_OFFSET_FETCH: Final = 8
_DESCRIBE_LOG_DIRS: Final = 2
_CONSUMER: Final = struct.pack(">ib", -1, 0)  # no replica; read uncommitted
_NO_TAGS: Final = b"\0"
_ALL_TOPICS: Final = b"\0"
_THROTTLE: Final = 4
_ANY_EPOCH: Final = -1
_ASKED: Final = struct.Struct(">iiqb")  # partition, leader epoch, timestamp, no tags
_NUMBER: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">ihqqib")  # partition, error, timestamp, offset, epoch, tags
_SIZE: Final = struct.Struct(">iqqbb")  # partition, size, lag, future, tags
_COMMITTED: Final = struct.Struct(">iqi")  # partition, offset, leader epoch; metadata follows
_ERROR: Final = struct.Struct(">h")

# A request for a connection, which gives it its correlation id.
Frame = Callable[[int], bytes]


def list_offsets(client_id: str, partitions: Iterable[TopicPartition], at: int) -> Iterator[Frame]:
    """Requests for the offset at a timestamp in each partition."""
    for some in _parts(partitions):
        topics = [
            _string(topic) + _array([_ASKED.pack(n, _ANY_EPOCH, at, 0) for n in numbers]) + _NO_TAGS
            for topic, numbers in by_topic(some).items()
        ]
        body = _CONSUMER + _array(topics) + _NO_TAGS
        yield _frame(ApiKey.LIST_OFFSETS, _LIST_OFFSETS, client_id, body)


def read_list_offsets(response: memoryview) -> dict[TopicPartition, int]:
    """The offset of each partition that has one. Raises CUT_SHORT."""
    found: dict[TopicPartition, int] = {}
    count, position = read_uvarint(response, skip_tags(response, 0) + _THROTTLE)
    for _ in range(count - 1):
        topic, position = read_string(response, position)
        partitions, position = read_uvarint(response, position)
        end = position + (partitions - 1) * _OFFSET.size
        for number, error, _, offset, _, tags in _OFFSET.iter_unpack(response[position:end]):
            _check_tags(tags)
            if not error and offset >= 0:
                found[TopicPartition(topic, number)] = offset
        position = skip_tags(response, end)
    return found


def describe_log_dirs(client_id: str, partitions: Iterable[TopicPartition]) -> Iterator[Frame]:
    """Requests for the size of these replicas of one broker."""
    for some in _parts(partitions):
        topics = [
            _string(topic) + _array([_NUMBER.pack(n) for n in numbers]) + _NO_TAGS
            for topic, numbers in by_topic(some).items()
        ]
        body = _array(topics) + _NO_TAGS
        yield _frame(ApiKey.DESCRIBE_LOG_DIRS, _DESCRIBE_LOG_DIRS, client_id, body)


def read_log_dirs(response: memoryview) -> dict[TopicPartition, tuple[int, int]]:
    """The size of each replica, and how many offsets it is behind; none of future replicas.

    Raises  CUT_SHORT
    """
    found: dict[TopicPartition, tuple[int, int]] = {}
    results, position = read_uvarint(response, skip_tags(response, 0) + _THROTTLE)
    for _ in range(results - 1):
        _, position = read_string(response, position + _ERROR.size)
        topics, position = read_uvarint(response, position)
        for _ in range(topics - 1):
            topic, position = read_string(response, position)
            partitions, position = read_uvarint(response, position)
            end = position + (partitions - 1) * _SIZE.size
            for number, size, lag, future, tags in _SIZE.iter_unpack(response[position:end]):
                _check_tags(tags)
                if not future:
                    found[TopicPartition(topic, number)] = size, lag
            position = skip_tags(response, end)
        position = skip_tags(response, position)
    return found


def fetch_offsets(client_id: str, groups: Sequence[str]) -> Iterator[Frame]:
    """Requests for all committed offsets of these groups of one coordinator."""
    remaining = iter(groups)
    while some := list(islice(remaining, _GROUPS_AT_ONCE)):
        asked = _array([_string(group) + _ALL_TOPICS + _NO_TAGS for group in some])
        body = asked + b"\0" + _NO_TAGS  # offsets of open transactions are not waited for
        yield _frame(ApiKey.OFFSET_FETCH, _OFFSET_FETCH, client_id, body)


def read_committed(response: memoryview) -> dict[str, dict[TopicPartition, int]]:
    """The committed offsets of each group that the coordinator answers for. Raises CUT_SHORT."""
    found: dict[str, dict[TopicPartition, int]] = {}
    groups, position = read_uvarint(response, skip_tags(response, 0) + _THROTTLE)
    for _ in range(groups - 1):
        group, position = read_string(response, position)
        offsets, position = _read_topics(response, position)
        (error,) = _ERROR.unpack_from(response, position)
        position = skip_tags(response, position + _ERROR.size)
        if not error:
            found[group] = offsets
    return found


def _read_topics(response: memoryview, position: int) -> tuple[dict[TopicPartition, int], int]:
    found: dict[TopicPartition, int] = {}
    topics, position = read_uvarint(response, position)
    for _ in range(topics - 1):
        topic, position = read_string(response, position)
        partitions, position = read_uvarint(response, position)
        for _ in range(partitions - 1):
            number, offset, _ = _COMMITTED.unpack_from(response, position)
            size, position = read_uvarint(response, position + _COMMITTED.size)
            position = skip_tags(response, position + max(0, size - 1) + _ERROR.size)
            if offset >= 0:
                found[TopicPartition(topic, number)] = offset
        position = skip_tags(response, position)
    return found, position


def read_string(response: memoryview, position: int) -> tuple[str, int]:
    """A compact string, empty if it is null, and the position after it."""
    size, position = read_uvarint(response, position)
    end = position + max(0, size - 1)
    return str(response[position:end], "utf-8"), end


def _check_tags(tags: int) -> None:
    if tags:
        raise Truncated("a partition has fields that are not known")


def _parts(partitions: Iterable[TopicPartition]) -> Iterator[list[TopicPartition]]:
    remaining = iter(partitions)
    while some := list(islice(remaining, AT_ONCE)):
        yield some


def _string(text: str) -> bytes:
    data = text.encode()
    return uvarint(len(data) + 1) + data


def _array(items: Sequence[bytes]) -> bytes:
    return uvarint(len(items) + 1) + b"".join(items)


def _frame(key: ApiKey, version: int, client_id: str, body: bytes) -> Frame:
    return lambda number: sized(request_header(key, version, number, client_id) + body)
