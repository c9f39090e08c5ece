"""A codec for Produce that leaves the record batches in the receive buffer.

kio's reader copies the records out of the frame and its writer needs some 15 µs a
reply; on this path both are half of all the work (see docs/benchmarks.md). This codec
agrees with kio's schemas: a test compares the two, version by version.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.wire.produce.plain_batch import FLEXIBLE, Answer, find_records
from barnabas.wire.varint import Truncated, read_uvarint, skip_tags, uvarint

# The most topics or partitions of a request: it is read in one turn of the event loop.
MOST_PRODUCED: Final = 100_000

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_ACKS_TIMEOUT_COUNT = struct.Struct(">hii")
_ACKS_TIMEOUT = struct.Struct(">hi")
_INDEX_SIZE = struct.Struct(">ii")


class PartitionBatches(NamedTuple):
    """The records for one partition, as they lie in the receive buffer, or none."""

    topic: str
    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[PartitionBatches]


class PartitionProduced(NamedTuple):
    """The answer for one partition."""

    partition: int
    code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[tuple[int, str | None], ...] = ()
    message: str | None = None


def read_produce(version: int, frame: memoryview, position: int) -> ProduceRequest:
    """The request whose body begins at `position`; its records are slices of `frame`.

    Raises  Truncated, if a length points outside the frame
    """
    try:
        if version >= FLEXIBLE:
            return _read_flexible(frame, position)
        return _read_classic(frame, position)
    except (struct.error, UnicodeDecodeError) as e:
        raise Truncated(f"a Produce request is cut short or not text: {e}") from None


class SinglePartition(NamedTuple):
    """A request for one partition: nearly all there are."""

    transactional_id: str | None
    acks: int
    topic: str
    partition: int
    records: memoryview
    sized_at: int  # where in the frame the size of the records stands
    timeout_ms: int


def whole(single: SinglePartition) -> ProduceRequest:
    """The same request as any other."""
    batches = PartitionBatches(single.topic, single.partition, single.records)
    return ProduceRequest(single.transactional_id, single.acks, single.timeout_ms, [batches])


_SINGLE_FLEXIBLE = struct.Struct(">hiBB")  # acks, timeout, one topic, name size
_SINGLE_CLASSIC = struct.Struct(">hiih")
_ONE_PARTITION_FLEXIBLE = struct.Struct(">Bi")
_ONE_PARTITION_CLASSIC = struct.Struct(">ii")


def read_single(version: int, frame: memoryview, position: int) -> SinglePartition | None:
    """The request if it is for one partition; None leaves it to `read_produce`, also if damaged."""
    try:
        if version < FLEXIBLE:
            (length,) = _SHORT.unpack_from(frame, position)
            named_at = position + 2
        else:
            length, named_at = frame[position] - 1, position + 1
            if length >= 0x7F:
                return None
        position = named_at + max(0, length)
        if version < FLEXIBLE:
            acks, timeout_ms, topics, size = _SINGLE_CLASSIC.unpack_from(frame, position)
            name_at, name_end = position + 12, position + 12 + size
            one, partition = _ONE_PARTITION_CLASSIC.unpack_from(frame, name_end)
            sized_at = name_end + 8
            if topics != 1 or one != 1 or length < -1:
                return None
        else:
            acks, timeout_ms, topics, size = _SINGLE_FLEXIBLE.unpack_from(frame, position)
            name_at, name_end = position + 8, position + 7 + size
            one, partition = _ONE_PARTITION_FLEXIBLE.unpack_from(frame, name_end)
            sized_at = name_end + 5
            if topics != 2 or one != 2 or size & 0x80:
                return None
        start, end = find_records(version, frame, 0, len(frame), sized_at)
        if not start:
            return None
        transactional_id = None if length < 0 else str(frame[named_at : named_at + length], "utf-8")
        topic = str(frame[name_at:name_end], "utf-8")
        records = frame[start:end]
        return SinglePartition(
            transactional_id, acks, topic, partition, records, sized_at, timeout_ms
        )
    except (IndexError, struct.error, UnicodeDecodeError):
        return None


def _read_classic(frame: memoryview, position: int) -> ProduceRequest:
    (length,) = _SHORT.unpack_from(frame, position)
    position += 2
    transactional_id = None
    if length >= 0:
        transactional_id = _text(frame, position, length)
        position += length
    acks, timeout_ms, topics = _ACKS_TIMEOUT_COUNT.unpack_from(frame, position)
    position += 10
    partitions: list[PartitionBatches] = []
    for _ in range(_checked(topics)):
        (length,) = _SHORT.unpack_from(frame, position)
        position += 2
        topic = _text(frame, position, length)
        (count,) = _INT.unpack_from(frame, position + length)
        position += length + 4
        for _ in range(_checked(count, len(partitions))):
            index, size = _INDEX_SIZE.unpack_from(frame, position)
            position += 8
            records = None
            if size >= 0:
                records = _slice(frame, position, size)
                position += size
            partitions.append(PartitionBatches(topic, index, records))
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def _read_flexible(frame: memoryview, position: int) -> ProduceRequest:
    length, position = read_uvarint(frame, position)
    transactional_id = None
    if length:
        transactional_id = _text(frame, position, length - 1)
        position += length - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    topics, position = read_uvarint(frame, position + 6)
    partitions: list[PartitionBatches] = []
    for _ in range(_checked(topics - 1)):
        length, position = read_uvarint(frame, position)
        topic = _text(frame, position, length - 1)
        count, position = read_uvarint(frame, position + length - 1)
        for _ in range(_checked(count - 1, len(partitions))):
            (index,) = _INT.unpack_from(frame, position)
            size, position = read_uvarint(frame, position + 4)
            records = None
            if size:
                records = _slice(frame, position, size - 1)
                position += size - 1
            position = skip_tags(frame, position)
            partitions.append(PartitionBatches(topic, index, records))
        position = skip_tags(frame, position)
    skip_tags(frame, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def _checked(count: int, before: int = 0) -> int:
    """The count of a list, unless that and those before it are too many."""
    if before + count > MOST_PRODUCED:
        raise Truncated(f"a Produce request has more than {MOST_PRODUCED:,} elements")
    return count


def _slice(frame: memoryview, position: int, size: int) -> memoryview:
    end = position + size
    if end > len(frame):
        raise Truncated("records reach past the end of the request")
    return frame[position:end]


def _text(frame: memoryview, position: int, length: int) -> str:
    if length < 0 or position + length > len(frame):
        raise Truncated("a name reaches past the end of the request")
    return str(frame[position : position + length], "utf-8")


def write_produce(
    version: int, correlation_id: int, topics: Sequence[tuple[str, list[PartitionProduced]]]
) -> bytes:
    """The whole response frame, size first."""
    body = bytearray()
    if version >= FLEXIBLE:
        body += b"\0" + uvarint(len(topics) + 1)
        for topic, produced in topics:
            name = topic.encode()
            body += uvarint(len(name) + 1) + name + uvarint(len(produced) + 1)
            for partition in produced:
                _write_flexible(body, partition)
            body += b"\0"
        body += b"\0\0\0\0\0"  # throttle time, no tags
    else:
        body += _INT.pack(len(topics))
        for topic, produced in topics:
            name = topic.encode()
            body += _SHORT.pack(len(name)) + name + _INT.pack(len(produced))
            for partition in produced:
                _write_classic(body, version, partition)
        body += b"\0\0\0\0"
    return _INDEX_SIZE.pack(len(body) + 4, correlation_id) + body


_PRODUCED = struct.Struct(">ihqqq")
_PRODUCED_V3 = struct.Struct(">ihqq")
_NOTHING_WRONG_FLEXIBLE = b"\1\0\0"  # no record errors, no message, no tags
_NOTHING_WRONG_CLASSIC = b"\0\0\0\0\xff\xff"


def _write_flexible(body: bytearray, produced: PartitionProduced) -> None:
    body += _PRODUCED.pack(*produced[:5])
    if not produced.record_errors and produced.message is None:
        body += _NOTHING_WRONG_FLEXIBLE
        return
    body += uvarint(len(produced.record_errors) + 1)
    for index, message in produced.record_errors:
        body += _INT.pack(index) + _compact(message) + b"\0"
    body += _compact(produced.message) + b"\0"


def _write_classic(body: bytearray, version: int, produced: PartitionProduced) -> None:
    if version < 5:
        body += _PRODUCED_V3.pack(*produced[:4])
        return
    body += _PRODUCED.pack(*produced[:5])
    if version < 8:
        return
    if not produced.record_errors and produced.message is None:
        body += _NOTHING_WRONG_CLASSIC
        return
    body += _INT.pack(len(produced.record_errors))
    for index, message in produced.record_errors:
        body += _INT.pack(index) + _classic(message)
    body += _classic(produced.message)


def success(version: int, topic: str, partition: int) -> Answer:
    """The response to a single partition's request that went well, to be filled in.

    A producer gets the same bytes again and again but for its correlation id, the base offset,
    the time of the append and the log start offset, which a call of its `response` gives.
    """
    whole = write_produce(version, 0, [(topic, [PartitionProduced(partition)])])
    numbers = _PRODUCED if version >= 5 else _PRODUCED_V3
    values = PartitionProduced(partition)[: 5 if version >= 5 else 4]
    at = whole.rindex(numbers.pack(*values)) + 6  # after the index and the code
    return Answer(whole, at, numbers.size - 6)


def _compact(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def _classic(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded


def refusal(partition: int, code: ErrorCode, message: str | None = None) -> PartitionProduced:
    """The response for a partition to which nothing was appended."""
    return PartitionProduced(partition, int(code), message=message)
