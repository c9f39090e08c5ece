"""A codec for Fetch whose responses are lists of buffers, with the records as the log has them.

kio's writer would copy every record into one buffer, and its reader builds objects that the
handler does not need. This codec agrees with kio's schemas: a test compares the two, version by
version.
"""

import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.wire.varint import MOST_TAGS, Truncated, read_uvarint, skip_tags, uvarint

FLEXIBLE: Final = 12
BY_TOPIC_ID: Final = 13
NO_REPLICA: Final = -1
# The most topics and partitions of a request: it is read in one turn of the event loop.
MOST_FETCHED: Final = 100_000

Buffer = bytes | bytearray | memoryview


class FetchPartition(NamedTuple):
    """The fetch of one partition."""

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


_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_REPLICA = struct.Struct(">i")
_LIMITS = struct.Struct(">iiib")  # longest wait, fewest bytes, most bytes, isolation level
_SESSION = struct.Struct(">ii")
_REPLICA_STATE_TAG: Final = 1
_READ_COMMITTED: Final = 1


class PartitionMemo:
    """The partitions of a client's last request by their bytes: most of the next are the same.

    An unchanged partition is the same object as before, so a comparison is cheap.
    """

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: dict[bytes, FetchPartition] = {}


def read_fetch(
    version: int, frame: memoryview, position: int, memo: PartitionMemo | None = None
) -> FetchRequest:
    """The request whose body begins at `position`.

    Raises  Truncated, if a length points outside the frame or something is not text
    """
    try:
        return _Reader(version, frame, position, memo).request()
    except (struct.error, UnicodeDecodeError) as e:
        raise Truncated(f"a Fetch request is cut short or not text: {e}") from None


class _Reader:
    """Goes once through a request, from field to field."""

    __slots__ = ("_flexible", "_frame", "_left", "_memo", "_position", "_read", "_version")

    def __init__(
        self, version: int, frame: memoryview, position: int, memo: PartitionMemo | None
    ) -> None:
        self._memo = memo
        self._read: dict[bytes, FetchPartition] = {}
        self._version = version
        self._flexible = version >= FLEXIBLE
        self._frame = frame
        self._position = position
        self._left = MOST_FETCHED

    def request(self) -> FetchRequest:
        version = self._version
        replica_id = -1 if version >= 15 else self._take(_REPLICA)[0]
        max_wait_ms, min_bytes, max_bytes, isolation_level = self._take(_LIMITS)
        session_id, session_epoch = self._take(_SESSION) if version >= 7 else (0, -1)
        topics = [self._topic() for _ in range(self._count())]
        forgotten = [self._forgotten() for _ in range(self._count())] if version >= 7 else []
        rack_id = self._text() if version >= 11 else ""
        if self._flexible:
            replica_id = self._last_tags(replica_id)
        if self._memo is not None:
            self._memo.last = self._read
        return FetchRequest(
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level == _READ_COMMITTED,
            session_id,
            session_epoch,
            topics,
            forgotten,
            rack_id,
        )

    def _topic(self) -> FetchTopic:
        name, topic_id = self._which()
        count = self._count()
        partitions = self._alike(count) or [self._partition() for _ in range(count)]
        self._skip_tags()
        return FetchTopic(name, topic_id, partitions)

    def _alike(self, count: int) -> list[FetchPartition]:
        """All partitions of a topic at once, if they are as most clients send them; else none."""
        fields = _UNTAGGED if self._flexible else _partition_fields(self._version)
        size = fields.size
        if self._position + count * size > len(self._frame):
            return []
        part = self._frame[self._position : self._position + count * size]
        if self._flexible and any(part[size - 1 :: size]):
            return []  # some have tags
        self._position += count * size
        make = _maker(self._version)
        if self._memo is None:
            return [make(*values) for values in fields.iter_unpack(part)]
        return self._remembered(part, fields, make, self._memo.last)

    def _remembered(
        self,
        part: memoryview,
        fields: struct.Struct,
        make: Callable[..., FetchPartition],
        known: dict[bytes, FetchPartition],
    ) -> list[FetchPartition]:
        read = self._read
        found = []
        for (entry,) in struct.iter_unpack(f"{fields.size}s", part):
            partition = known.get(entry)
            if partition is None:
                partition = make(*fields.unpack(entry))
            read[entry] = partition
            found.append(partition)
        return found

    def _forgotten(self) -> ForgottenTopic:
        name, topic_id = self._which()
        count = self._count()
        if self._position + 4 * count > len(self._frame):
            raise Truncated(f"there is no room for {count} partitions")
        partitions = struct.unpack_from(f">{count}i", self._frame, self._position)
        self._position += 4 * count
        self._skip_tags()
        return ForgottenTopic(name, topic_id, partitions)

    def _partition(self) -> FetchPartition:
        fields = self._take(_partition_fields(self._version))
        self._skip_tags()
        return _maker(self._version)(*fields)

    def _which(self) -> tuple[str | None, uuid.UUID | None]:
        if self._version < BY_TOPIC_ID:
            return self._text(), None
        return None, uuid.UUID(bytes=bytes(self._bytes(16)))

    def _last_tags(self, replica_id: int) -> int:
        """Steps over the request's own tags; the replica's id is among them from version 15 on."""
        count, self._position = read_uvarint(self._frame, self._position)
        if count > MOST_TAGS:
            raise Truncated(f"a section has {count} tagged fields")
        for _ in range(count):
            tag, self._position = read_uvarint(self._frame, self._position)
            size, self._position = read_uvarint(self._frame, self._position)
            value = self._bytes(size)
            if tag == _REPLICA_STATE_TAG and self._version >= 15:
                (replica_id,) = _REPLICA.unpack_from(value)
        return replica_id

    # -- what fields are made of ----------------------------------------------

    def _take(self, fields: struct.Struct) -> tuple[int, ...]:
        values = fields.unpack_from(self._frame, self._position)
        self._position += fields.size
        return values

    def _count(self) -> int:
        if self._flexible:
            length, self._position = read_uvarint(self._frame, self._position)
            count = length - 1
        else:
            (count,) = self._take(_INT)
        self._left -= count
        if count < 0 or self._left < 0:
            raise Truncated(f"a list of {count} elements")
        return count

    def _text(self) -> str:
        if self._flexible:
            length, self._position = read_uvarint(self._frame, self._position)
            return str(self._bytes(length - 1), "utf-8")
        (length,) = self._take(_SHORT)
        return str(self._bytes(length), "utf-8")

    def _bytes(self, size: int) -> memoryview:
        end = self._position + size
        if size < 0 or end > len(self._frame):
            raise Truncated("a field reaches past the end of the request")
        value = self._frame[self._position : end]
        self._position = end
        return value

    def _skip_tags(self) -> None:
        if self._flexible:
            self._position = skip_tags(self._frame, self._position)


_PARTITION_V12 = struct.Struct(">iiqiqi")
_UNTAGGED = struct.Struct(_PARTITION_V12.format + "b")  # the last byte counts tags
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V4 = struct.Struct(">iqi")


def _wanted(
    index: int,
    leader_epoch: int,
    offset: int,
    last_fetched_epoch: int,
    log_start_offset: int,
    size: int,
    _tags: int = 0,
) -> FetchPartition:
    """The fields of version 12 in the order of `FetchPartition`."""
    return FetchPartition(index, offset, size, leader_epoch, last_fetched_epoch, log_start_offset)


def _wanted_v9(
    index: int, leader_epoch: int, offset: int, log_start_offset: int, size: int
) -> FetchPartition:
    return FetchPartition(index, offset, size, leader_epoch, -1, log_start_offset)


def _wanted_v5(index: int, offset: int, log_start_offset: int, size: int) -> FetchPartition:
    return FetchPartition(index, offset, size, log_start_offset=log_start_offset)


def _maker(version: int) -> Callable[..., FetchPartition]:
    """Makes a partition of the fields in that version."""
    if version >= 9:
        return _wanted if version >= 12 else _wanted_v9
    return _wanted_v5 if version >= 5 else FetchPartition


def _partition_fields(version: int) -> struct.Struct:
    if version >= 9:
        return _PARTITION_V12 if version >= 12 else _PARTITION_V9
    return _PARTITION_V5 if version >= 5 else _PARTITION_V4


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
    preferred_read_replica: int = NO_REPLICA


class TopicFetched(NamedTuple):
    """The answer for a topic; a partition that was packed before goes out as it is."""

    name: str | None
    topic_id: uuid.UUID | None
    partitions: list[PartitionFetched | bytes]


_FRAME = struct.Struct(">ii")
_THROTTLE_ERROR_SESSION = struct.Struct(">ihi")
_FETCHED = struct.Struct(">ihqqq")
_FETCHED_V4 = struct.Struct(">ihqq")
_FETCHED_V12 = struct.Struct(">ihqqqBi")
_ABORTED = struct.Struct(">qq")


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
            if isinstance(partition, bytes):
                head += partition
                continue
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


def pack_partition(version: int, got: PartitionFetched) -> bytes:
    """The bytes of a partition without records, for `write_fetch`."""
    head, flexible = bytearray(), version >= FLEXIBLE
    _partition_head(head, version, got, flexible)
    if flexible:
        _partition_tags(head, got)
    return bytes(head)


def _count(count: int, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else _INT.pack(count)


def _partition_head(head: bytearray, version: int, got: PartitionFetched, flexible: bool) -> None:
    if flexible and not got.aborted:  # most of today's clients, of most partitions
        aborted = 0 if got.aborted is None else 1  # the length of a compact array is one more
        head += _FETCHED_V12.pack(*got[:5], aborted, got.preferred_read_replica)
        head += uvarint(len(got.records) + 1)
        return
    if version >= 5:
        head += _FETCHED.pack(*got[:5])
    else:
        head += _FETCHED_V4.pack(*got[:4])
    if got.aborted is None:
        head += b"\xff\xff\xff\xff"
    else:
        head += _count(len(got.aborted), flexible)
        for producer_id, first_offset in got.aborted:
            head += _ABORTED.pack(producer_id, first_offset)
            if flexible:
                head += b"\0"
    if version >= 11:
        head += _INT.pack(got.preferred_read_replica)
    head += _count(len(got.records), flexible)


def _partition_tags(head: bytearray, got: PartitionFetched) -> None:
    if got.diverging_epoch is None:
        head += b"\0"
    else:
        head += b"\1\0\x0d" + struct.pack(">iq", *got.diverging_epoch) + b"\0"
