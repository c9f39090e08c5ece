"""A model of the Java consumer's fetcher: which partitions it fetches, when and in what order.

A model without I/O of what the consumer of Apache Kafka 3.9 does with one broker (`AbstractFetch`,
`FetchBuffer`, `FetchCollector`, `FetchSessionHandler`); where it differs from other clients is why
it is here:

- One fetch is in flight. The next is sent by the `poll` that takes records, before it returns them.
- A fetch names the assigned partitions of which nothing is buffered. In a fetch session the others
  are *forgotten*, so the broker looks at none of them, and come back as new ones.
- Each partition of an answer is buffered, also one without records. A full answer lists all of
  them, so a partition that got nothing is not named before those ahead of it are consumed.
- Partitions that can be fetched are in a `HashSet`: their order is that of hash codes.
- An incremental fetch sends those that are new to the session first, then those whose offset has
  changed, in the order of the session.

With one broker and the same six logs, kafka-clients 3.9.1 sent the requests that this model sends,
in the same order. Offsets of a log must be dense, as they are where nothing is compacted.
"""

import struct
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.bench.limits.load_generator import LoadFailed
from barnabas.client.fetch import NO_SESSION, Fetch, FetchResponse
from barnabas.wire.fetch.fetch_codec import NO_REPLICA, FetchPartition, FetchTopic, ForgottenTopic

MIB: Final = 2**20
_LEAST_BUCKETS: Final = 16
_LAST_EPOCH: Final = 2**31 - 1


_BATCH = struct.Struct(">qi")  # base offset, length of what follows
_LAST_DELTA = struct.Struct(">i")
_LAST_DELTA_AT: Final = 23


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """A consumer's bounds; the defaults are those of the Java consumer."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * MIB
    partition_max_bytes: int = MIB
    max_poll_records: int = 500


@dataclass(frozen=True, slots=True)
class FetchAsked:
    """One request: offsets by partition in the order of the request, and what to forget.

    Epoch -1 is a fetch without a session, 0 one that opens a session.
    """

    to_send: Mapping[int, int]
    to_forget: Sequence[int] = ()
    session_id: int = 0
    session_epoch: int = NO_SESSION

    def of_topic(
        self,
        topic: str,
        limits: FetchLimits,
        *,
        replica_id: int = NO_REPLICA,
        leader_epoch: int = -1,
    ) -> Fetch:
        """The request, with the topic by its name."""
        size = limits.partition_max_bytes
        wanted = [FetchPartition(*each, size, leader_epoch) for each in self.to_send.items()]
        return Fetch(
            limits.max_wait_ms,
            limits.min_bytes,
            limits.max_bytes,
            [FetchTopic(topic, None, wanted)] if wanted else [],
            [ForgottenTopic(topic, None, tuple(self.to_forget))] if self.to_forget else [],
            self.session_id,
            self.session_epoch,
            replica_id=replica_id,
        )


@dataclass(slots=True)
class _Completed:
    """The buffered records of one partition of a response, from the next one to return."""

    partition: int
    position: int
    end: int
    error: ErrorCode
    is_consumed: bool = False


class _Session:
    """The client side of a fetch session (`FetchSessionHandler`)."""

    def __init__(self) -> None:
        self.partitions: dict[int, int] = {}
        self.session_id = 0
        self.epoch = 0

    def build(self, wanted: dict[int, int]) -> FetchAsked:
        """The next request for these partitions; `wanted` is used up."""
        if self.epoch == 0:
            self.partitions = wanted
            return FetchAsked(dict(wanted), (), self.session_id, 0)
        forgotten = []
        for partition, before in list(self.partitions.items()):
            offset = wanted.pop(partition, None)
            if offset is None:
                del self.partitions[partition]
                forgotten.append(partition)
            elif offset != before:
                self.partitions[partition] = offset
                wanted[partition] = offset  # behind those that are new
        self.partitions.update(wanted)
        return FetchAsked(wanted, forgotten, self.session_id, self.epoch)

    def accept(self, answer: FetchResponse) -> bool:
        """True if the response is usable. Raises LoadFailed if it lists wrong partitions."""
        if answer.error is not ErrorCode.none:
            self.epoch = 0
            if answer.error is ErrorCode.fetch_session_id_not_found:
                self.session_id = 0
            return False
        listed = {each.partition for each in answer.partitions}
        if listed - self.partitions.keys() or (not self.epoch and listed != self.partitions.keys()):
            raise LoadFailed(
                f"a fetch of {sorted(self.partitions)} in epoch {self.epoch} of its session"
                f" was answered with partitions {sorted(listed)}"
            )
        has_next = answer.session_id != 0
        self.session_id = answer.session_id
        self.epoch = (1 if self.epoch == _LAST_EPOCH else self.epoch + 1) if has_next else 0
        return True


class JavaFetcher:
    """One consumer with partitions of one topic at one broker.

    `poll`, `next_fetch` and `on_answer` are called as `consume` in `sessions` does.
    """

    def __init__(
        self,
        topic: str,
        partitions: Iterable[int],
        limits: FetchLimits | None = None,
        offset: int = 0,
    ) -> None:
        self.topic = topic
        self.limits = limits or FetchLimits()
        self.positions = dict.fromkeys(partitions, offset)  # of the next record to return
        self.fetched = dict(self.positions)  # behind what is buffered
        self.fetches = 0
        self.empty_fetches = 0  # which were answered with no record at all
        self._session = _Session()
        self._asked: dict[int, int] | None = None  # what the fetch in flight asks for
        self._buffered: deque[_Completed] = deque()
        self._next_in_line: _Completed | None = None
        self._hashes = {each: hash_code(topic, each) for each in self.positions}

    @property
    def in_flight(self) -> bool:
        return self._asked is not None

    def poll(self) -> int:
        """Return the number of buffered records that one poll returns (`FetchCollector`)."""
        left = self.limits.max_poll_records
        while left > 0:
            line = self._next_in_line
            if line is None or line.is_consumed:
                if not self._buffered:
                    break
                self._next_in_line = self._initialized(self._buffered.popleft())
            else:
                left -= self._take(line, left)
        return self.limits.max_poll_records - left

    def _initialized(self, completed: _Completed) -> _Completed | None:
        if completed.error is not ErrorCode.none:
            self._move_to_end(completed.partition)
            return None
        return completed if completed.position == self.positions[completed.partition] else None

    def _take(self, line: _Completed, most: int) -> int:
        taken = min(most, line.end - line.position)
        line.position += taken
        self.positions[line.partition] = line.position
        if taken < most:  # it looked for one more, and there was none
            line.is_consumed = True
            if taken:
                self._move_to_end(line.partition)
        return taken

    def _move_to_end(self, partition: int) -> None:
        self.positions[partition] = self.positions.pop(partition)

    def next_fetch(self) -> FetchAsked | None:
        """The next fetch, if one is due."""
        if self.in_flight:
            return None
        wanted = {each: self.positions[each] for each in self._fetchable()}
        if not wanted:
            return None
        self.fetches += 1
        asked = self._session.build(wanted)
        self._asked = dict(self._session.partitions)
        return asked

    def _fetchable(self) -> list[int]:
        buffered = {each.partition for each in self._buffered}
        if self._next_in_line is not None and not self._next_in_line.is_consumed:
            buffered.add(self._next_in_line.partition)
        free = [each for each in self.positions if each not in buffered]
        buckets = _LEAST_BUCKETS
        while buckets < int(len(free) / 0.75) + 1:
            buckets *= 2
        return sorted(free, key=lambda each: self._hashes[each] & (buckets - 1))

    def on_answer(self, answer: FetchResponse) -> None:
        """Buffer a response. Raises LoadFailed if it does not match the last fetch."""
        if self._asked is None:
            raise LoadFailed("a response arrived, but no fetch is in flight")
        asked, self._asked = self._asked, None
        if not self._session.accept(answer):
            return
        records = 0
        for each in answer.partitions:
            offset = asked[each.partition]
            end = next_offset(each.records, offset)
            records += end - offset
            self.fetched[each.partition] = end
            self._buffered.append(_Completed(each.partition, offset, end, each.error))
        self.empty_fetches += not records


def next_offset(records: memoryview, offset: int) -> int:
    """The offset behind the last whole batch of the records; `offset` if there is none."""
    position, size = 0, len(records)
    while position + _LAST_DELTA_AT + _LAST_DELTA.size <= size:
        base, length = _BATCH.unpack_from(records, position)
        end = position + _BATCH.size + length
        if end > size:
            break
        (delta,) = _LAST_DELTA.unpack_from(records, position + _LAST_DELTA_AT)
        offset, position = base + delta + 1, end
    return offset


def hash_code(topic: str, partition: int) -> int:
    """Java's hash code of a TopicPartition, its bits spread as `HashMap` does, unsigned."""
    name = 0
    for character in topic:
        name = (31 * name + ord(character)) & 0xFFFFFFFF
    code = (31 * (31 + partition) + name) & 0xFFFFFFFF
    return code ^ code >> 16
