"""Produce 0 to 2 and Fetch 0 to 3, with message sets instead of record batches.

A request is rewritten to the first version with record batches, served as that, and its answer
rewritten to the version of the client. Clients of Kafka 0.8 to 0.10 send these, and newer ones that
are told to. As in Kafka, records get the codec of the messages that were sent, zstd is refused to
those who cannot know it, and headers and control records are left out.
"""

import struct
from collections.abc import Iterator
from itertools import groupby
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.requests.converted_responses import MOST_CONVERTED, Converted
from barnabas.server.requests.replies import Answer
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.produce.produce_codec import read_produce
from barnabas.wire.records.message_sets import batch_of, messages_of
from barnabas.wire.varint import Truncated

_HEADER: Final = struct.Struct(">hhih")
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_NO_TRANSACTION: Final = b"\xff\xff"
_CONSUMER: Final = -1
# Of the records of a response, before they are rewritten.
MOST_FETCHED: Final = MOST_CONVERTED
_READ_UNCOMMITTED: Final = 0
_UNKNOWN: Final = b"\xff" * 8
_CONVERTED: Final = (ApiKey.PRODUCE, ApiKey.FETCH)

# By topic and partition: of a Fetch the offset, of a Produce the error of its messages, if any.
Known = dict[tuple[str, int], int]


class Rewritten(NamedTuple):
    """A request in the first version with record batches."""

    frame: bytearray  # the log stamps batches where they lie
    known: Known


def is_old_format(key: int, version: int) -> bool:
    """True if this version has message sets, and is served all the same."""
    return key in _CONVERTED and 0 <= version < APIS[ApiKey(key)].lowest


def newer_request(key: int, version: int, frame: bytes) -> Rewritten:
    """The request in the first version with record batches.

    The log is given no records in place of messages that are broken, and refuses that.
    Raises  Truncated, if a length points outside the frame
    """
    try:
        _, _, _, length = _HEADER.unpack_from(frame)
        begin = _HEADER.size + max(length, 0)
        head = bytearray(frame[:begin])
        _SHORT.pack_into(head, 2, APIS[ApiKey(key)].lowest)
        if key == ApiKey.PRODUCE:
            body, known = _newer_produce(frame[begin:])
        else:
            body, known = _newer_fetch(version, frame[begin:])
        return Rewritten(head + body, known)
    except (struct.error, UnicodeDecodeError) as e:
        raise Truncated(f"an old request is cut short or not text: {e}") from None


def older_answer(
    key: int,
    version: int,
    answer: Answer,
    known: Known,
    most: int = MOST_CONVERTED,
    first: int = 0,
) -> Converted:
    """The answer, size first, in the version of the client; empty if it wants none.

    A fetched partition that is not `known` is refused: its topic is not down-converted. Records of
    `most` bytes are converted, from the partition of number `first` on, and the rest of the last
    one; the client fetches others later.
    """
    answer = b"".join(answer) if isinstance(answer, list) else answer
    if not answer:
        return Converted()
    out = Converted(_INT.size)
    out += answer[4:8]
    if key == ApiKey.PRODUCE:
        _older_produce(version, _Reader(answer, 8), known, out)
    else:
        _older_fetch(version, _Reader(answer, 8), known, out, most, first)
    _INT.pack_into(out, 0, len(out) - _INT.size)
    return out


# -- Produce -----------------------------------------------------------------


def _newer_produce(body: bytes) -> tuple[bytes, Known]:
    first = APIS[ApiKey.PRODUCE].lowest
    request = read_produce(first, memoryview(_NO_TRANSACTION + body), 0)
    out = bytearray(_NO_TRANSACTION)
    out += _SHORT.pack(request.acks) + _INT.pack(request.timeout_ms)
    topics = [
        (topic, list(partitions))
        for topic, partitions in groupby(request.partitions, key=lambda each: each.topic)
    ]
    out += _INT.pack(len(topics))
    refused: Known = {}
    for topic, partitions in topics:
        out += _string(topic) + _INT.pack(len(partitions))
        for _, partition, records in partitions:
            batch: bytearray | None = None
            try:
                batch = None if records is None else batch_of(records)
            except BrokerError as e:
                refused[topic, partition] = int(e.code)
            out += _INT.pack(partition) + _sized(batch)
    return bytes(out), refused


def _older_produce(version: int, read: "_Reader", refused: Known, out: bytearray) -> None:
    for _ in read.array(out):
        topic = read.text()
        out += _string(topic)
        for _ in read.array(out):
            partition, code, base_offset = read.int32(), read.int16(), read.take(8)
            if code == ErrorCode.invalid_record:  # perhaps since the log was given none
                code = refused.get((topic, partition), code)
            out += _INT.pack(partition) + _SHORT.pack(code) + base_offset
            appended = read.take(8)
            if version >= 2:
                out += appended
    if version >= 1:
        out += read.take(4)  # throttle time


# -- Fetch -------------------------------------------------------------------


def _newer_fetch(version: int, body: bytes) -> tuple[bytes, Known]:
    read = _Reader(body, 0)
    out = bytearray(_INT.pack(min(read.int32(), _CONSUMER)))  # brokers of that time are not served
    out += read.take(4 + 4)  # most time to wait, least bytes
    most = min(read.int32(), MOST_FETCHED) if version >= 3 else MOST_FETCHED
    out += _INT.pack(most) + bytes((_READ_UNCOMMITTED,))
    offsets: Known = {}
    for _ in read.array(out):
        topic = read.text()
        out += _string(topic)
        for _ in read.array(out):
            asked = read.take(4 + 8 + 4)
            partition, offset = struct.unpack_from(">iq", asked)
            offsets[topic, partition] = offset
            out += asked
    return bytes(out), offsets


class _FetchedPartition(NamedTuple):
    partition: int
    code: int
    high_watermark: bytes
    records: bytes


_FetchedTopics = list[tuple[str, list[_FetchedPartition]]]


def _older_fetch(
    version: int, read: "_Reader", offsets: Known, out: bytearray, most: int, first: int
) -> None:
    throttle = read.take(4)
    out += throttle if version >= 1 else b""
    topics = _fetched(read)
    magic = 1 if version >= 2 else 0
    converted = iter(_converted(topics, offsets, magic, most, first))
    out += _INT.pack(len(topics))
    for topic, partitions in topics:
        out += _string(topic) + _INT.pack(len(partitions))
        for each in partitions:
            code, messages = next(converted)
            high_watermark = each.high_watermark if (topic, each.partition) in offsets else _UNKNOWN
            out += _INT.pack(each.partition) + _SHORT.pack(code) + high_watermark
            out += _INT.pack(len(messages))
            out += messages


def _converted(
    topics: _FetchedTopics, offsets: Known, magic: int, most: int, first: int
) -> list[tuple[int, bytearray]]:
    """The code and messages of each partition, in order; the conversion begins at another each
    time, and what one partition leaves of its share is for those behind it.
    """
    every = [(topic, each) for topic, partitions in topics for each in partitions]
    results = [(each.code, bytearray()) for _, each in every]
    sharing = sum(bool(each.records) for _, each in every)
    for number in range(len(every)):
        at = (first + number) % len(every)
        topic, (partition, code, _, records) = every[at]
        offset, messages = offsets.get((topic, partition)), bytearray()
        if offset is None:
            code = int(ErrorCode.unsupported_version)
        elif records and most > 0:
            try:
                messages = messages_of(records, magic, offset, most // sharing)
            except BrokerError as e:
                code = int(e.code)
        sharing -= bool(records)
        most -= len(messages)
        results[at] = code, messages
    return results


def _fetched(read: "_Reader") -> _FetchedTopics:
    """The partitions of a response in the first version with record batches, by topic."""
    topics: _FetchedTopics = []
    for _ in range(read.int32()):
        partitions: list[_FetchedPartition] = []
        topics.append((read.text(), partitions))
        for _ in range(read.int32()):
            partition, code, high_watermark = read.int32(), read.int16(), read.take(8)
            read.take(8)  # last stable offset
            for _ in range(read.int32()):  # aborted transactions
                read.take(8 + 8)
            records = read.take(max(read.int32(), 0))
            partitions.append(_FetchedPartition(partition, code, high_watermark, records))
    return topics


# -- the parts of both -------------------------------------------------------


def _string(value: str) -> bytes:
    encoded = value.encode()
    return _SHORT.pack(len(encoded)) + encoded


def _sized(value: bytes | bytearray | None) -> bytes:
    return _INT.pack(-1) if value is None else _INT.pack(len(value)) + value


class _Reader:
    """Reads fields one after the other. Raises Truncated at the end of the data."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position

    def take(self, size: int) -> bytes:
        begin, self._position = self._position, self._position + size
        if size < 0 or self._position > len(self._data):
            raise Truncated("a field reaches past the end of an old request")
        return self._data[begin : self._position]

    def int16(self) -> int:
        value: int = _SHORT.unpack(self.take(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT.unpack(self.take(4))[0]
        return value

    def text(self) -> str:
        return str(self.take(self.int16()), "utf-8")

    def array(self, copy_to: bytearray) -> Iterator[int]:
        """The numbers of an array's elements; its length goes to `copy_to`, too."""
        count = self.int32()
        copy_to += _INT.pack(count)
        return iter(range(count))
