"""Fetch (1): batches from the page cache to the socket, now or when there is enough of them.

A fetch that finds less than `min_bytes`, and leaves nothing behind that it could read, waits in
the purgatory until there is more in one of its partitions, or for `max_wait_ms`. Consumers read
what is committed, from the leader or, since version 11, from a follower; followers read all that
the leader has, and tell by it what they have themselves (`follower_fetches`). Rules on size:
`max_bytes` bounds the answer and each partition's own limit its share, but the first batch of
the first partition that has any is always sent, however large, so that a consumer never gets
stuck. A consumer of small records gets fewer partitions at once than `max_bytes` would allow.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import NO_LEADER_EPOCH, BrokerId, Offset, TopicPartition
from barnabas.base.offload import Offload
from barnabas.log.extent import NOTHING, Extent
from barnabas.purgatory.operations import DelayedOperation
from barnabas.replication.leader import LeaderReplica
from barnabas.replication.reading import Reading
from barnabas.replication.replicas import Replicas
from barnabas.server.connection import Connection
from barnabas.server.delayed import Delayed
from barnabas.server.fetch_sessions import FetchContext, FetchSessions, TopicKey, Wanted
from barnabas.server.follower_fetches import FollowerFetches
from barnabas.server.metadata import MetadataCache
from barnabas.server.read_replicas import RackAware
from barnabas.server.repeated_fetch import RepeatedFetch
from barnabas.server.replies import Answer, Pending, Refusal, Reply, Work
from barnabas.wire.fetch import (
    BY_TOPIC_ID,
    NO_REPLICA,
    Buffer,
    FetchRequest,
    PartitionFetched,
    TopicFetched,
    read_fetch,
    write_fetch,
)
from barnabas.wire.fetch_single import SingleAnswer, SingleFetch, read_single_fetch, single_answer

log = logging.getLogger("barnabas.fetch")

# How many partitions' answers are kept ready.
REMEMBERED: Final = 10_000
CONSUMER: Final = -1
FROM_FOLLOWERS_SINCE: Final = 11
# An answer to a consumer takes in no further partition when it has what this many records take, and
# this many bytes. The consumer looks at the first record when the last has come: if they are many,
# they have left its processor's caches by then. Of fewer bytes, or with many partitions that each
# request names, asking again would cost more.
ENOUGH_RECORDS: Final = 3072
ENOUGH_BYTES: Final = 3 * 512 * 1024
ENOUGH_FOR_EACH: Final = 64 * 1024  # bytes for each partition that is named


@dataclass(slots=True)
class Found:
    """What one partition has to give: its answer without records, and where those lie."""

    topic: TopicKey
    answer: PartitionFetched
    extent: Extent | None = None
    more: bool = False  # behind the extent: a limit or the end of a segment cut it off


@dataclass(slots=True)
class Fetched:
    found: list[Found]
    size: int
    urgent: bool  # something must be told at once, or waiting would not be for lack of data


class Fetch:
    """Serves consumers and followers from the partitions that this broker leads.

    Consumers also from those that it follows.
    """

    def __init__(
        self,
        replicas: Replicas,
        metadata: MetadataCache,
        sessions: FetchSessions,
        delayed: Delayed,
        offload: Offload,
        max_bytes: int,
        disk_failed: Callable[[DiskFault], None],
        work: Work,
        errors: Counter[int],
        follower_fetches: FollowerFetches,
        selector: RackAware | None = None,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._sessions = sessions
        self._delayed = delayed
        self._offload = offload
        self.max_bytes = max_bytes
        self._disk_failed = disk_failed
        self._answers: dict[tuple[int, TopicKey, int, bool], SingleAnswer] = {}
        self._work = work
        self.errors = errors  # what was told of partitions and sessions, by its code
        self._follower_fetches = follower_fetches
        self._selector = selector

    def __call__(
        self,
        version: int,
        correlation_id: int,
        frame: memoryview,
        position: int,
        connection: Connection,
    ) -> Reply:
        single = read_single_fetch(version, frame, position)
        shortcut: Callable[[], list[Buffer] | None] | None = None
        if single is not None and self._selector is None:
            again = RepeatedFetch(
                single,
                self._answer_ready(version, single),
                frame,
                self._replicas.find,
                self._metadata.name_of,
                self.max_bytes,
            )
            answer = again.answer(single.fetch_offset, correlation_id)
            if answer is not None:
                connection.remember(frame, single.offset_at, again)
                return answer
            if single.min_bytes <= 1:  # else each batch that comes would have all of them read
                shortcut = partial(again.answer, single.fetch_offset, correlation_id)
        request = read_fetch(version, frame, position)
        try:
            context = self._sessions.begin(request, by_id=version >= BY_TOPIC_ID)
        except BrokerError as e:
            self.errors[int(e.code)] += 1
            return write_fetch(version, correlation_id, (), int(e.code))
        operation = DelayedFetch(self, request, context, version, correlation_id, shortcut)
        if request.replica_id < 0 or self._has_news(request, context):
            fetched = self.collect(request, context, version)
            if operation.is_enough(fetched) or request.max_wait_ms <= 0:
                return self.answer(operation, fetched)
        delayed = self._delayed.followers if request.replica_id >= 0 else self._delayed.consumers
        operation.pending = Pending(on_abandoned=lambda: delayed.cancel(operation))
        keys = [
            (name, wanted.partition.partition)
            for wanted in context.wanted
            if (name := self._name_of(wanted.topic)) is not None
        ]
        delayed.try_complete_else_watch(operation, keys, request.max_wait_ms)
        return operation.pending

    def _has_news(self, request: FetchRequest, context: FetchContext) -> bool:
        """Take note of what a follower has, and say whether it may be answered at once.

        If not, which is most often so, there is no need to look at each partition once more.
        """
        led = []
        for topic, partition in context.wanted:
            leader = self._leader(topic, partition.partition)
            if leader is not None:
                led.append((leader, partition))
        is_news = self._follower_fetches.on_fetch(request.replica_id, led)
        is_whole = 0 < len(context.wanted) == len(led)
        return is_news or not is_whole or min(request.max_wait_ms, request.min_bytes) <= 0

    def _answer_ready(self, version: int, single: SingleFetch) -> SingleAnswer:
        key = (version, single.topic, single.partition, single.read_committed)
        ready = self._answers.get(key)
        if ready is None:
            if len(self._answers) >= REMEMBERED:
                self._answers.clear()
            ready = self._answers[key] = single_answer(*key)
        return ready

    def collect(self, request: FetchRequest, context: FetchContext, version: int) -> Fetched:
        """Look at each wanted partition, in order, until `max_bytes` are found or a consumer has
        enough for now."""
        left = min(request.max_bytes, self.max_bytes)
        enough = left
        fetched = Fetched([], 0, False)
        for wanted in context.wanted:
            if request.replica_id >= 0 and self._is_idle(wanted, request.replica_id, context):
                continue
            is_full = fetched.size > 0 and not left
            found = self._passed_over(wanted, request) if is_full else None
            if found is None:
                found = self._look(wanted, left, fetched.size, request, version)
            fetched.found.append(found)
            if found.extent is not None:
                if not fetched.size and request.replica_id < 0:
                    named = ENOUGH_FOR_EACH * len(context.wanted)
                    enough = max(self._enough(wanted), request.min_bytes, named)
                fetched.size += found.extent.size
                left = max(0, left - found.extent.size) if fetched.size < enough else 0
            answer = found.answer
            if (
                found.more
                or answer.code
                or answer.diverging_epoch
                or answer.preferred_read_replica != NO_REPLICA
            ):
                fetched.urgent = True
        return fetched

    def _passed_over(self, wanted: Wanted, request: FetchRequest) -> Found | None:
        """What `_look` finds in a partition when the answer is full, if there is nothing special
        about it: so it is with most of those that a consumer of many names."""
        partition = wanted.partition
        leader = self._leader(wanted.topic, partition.partition)
        if (
            leader is None
            or request.replica_id >= 0
            or self._selector is not None
            or partition.last_fetched_epoch >= 0
            or partition.current_leader_epoch not in (NO_LEADER_EPOCH, leader.epoch)
            or not leader.log.log_start_offset <= partition.fetch_offset <= leader.high_watermark
        ):
            return None
        answer = PartitionFetched(
            partition.partition,
            0,
            leader.high_watermark,
            leader.last_stable_offset,
            leader.log.log_start_offset,
            b"",
            () if request.read_committed else None,
        )
        return Found(wanted.topic, answer)

    def _enough(self, wanted: Wanted) -> int:
        """The bytes that a consumer had better have when it looks at records like these."""
        name, index = self._name_of(wanted.topic), wanted.partition.partition
        replica = None if name is None else self._replicas.get(TopicPartition(name, index))
        mean = 0 if replica is None else replica.log.mean_record_bytes
        return max(ENOUGH_BYTES, ENOUGH_RECORDS * mean)

    def _is_idle(self, wanted: Wanted, replica: int, context: FetchContext) -> bool:
        """Whether a follower has all of a partition and knows it: so it is with most of them."""
        partition = wanted.partition
        leader = self._leader(wanted.topic, partition.partition)
        return (
            leader is not None
            and partition.fetch_offset == leader.log.log_end_offset
            and partition.current_leader_epoch == leader.epoch
            and partition.last_fetched_epoch in (NO_LEADER_EPOCH, leader.log.epochs.latest)
            and leader.has_follower(replica)
            and context.has_told(
                wanted.topic,
                partition.partition,
                leader.high_watermark,
                leader.log.log_start_offset,
            )
        )

    def _look(
        self, wanted: Wanted, left: int, before: int, request: FetchRequest, version: int
    ) -> Found:
        """What one partition has, where those before it gave `before` bytes."""
        partition, offset = wanted.partition, wanted.partition.fetch_offset
        try:
            leader, reading = self._find(wanted, request, version)
            reading.check_epoch(partition.current_leader_epoch)
            if leader is not None and request.replica_id >= 0:
                leader.check_follower(request.replica_id, partition.current_leader_epoch)
            stable = reading.last_stable_offset
            answer = PartitionFetched(
                partition.partition,
                0,
                reading.high_watermark,
                stable,
                reading.log.log_start_offset,
                b"",
                () if request.read_committed else None,
            )
            if (better := self._better_replica(leader, request, offset)) is not None:
                return Found(wanted.topic, answer._replace(preferred_read_replica=better))
            diverging = reading.diverging_epoch(partition.last_fetched_epoch, offset)
            if diverging is not None:
                return Found(wanted.topic, answer._replace(diverging_epoch=diverging))
            upto = _readable(reading, stable, request)
            if offset == upto:
                return Found(wanted.topic, answer)  # as in most partitions of most fetches
            limit = min(partition.max_bytes, left)
            extent = reading.log.locate(Offset(offset), limit, upto, minimum_one=before == 0)
            if extent.size and self._must_wait(leader, request):
                extent = NOTHING
            elif before + extent.size < request.min_bytes:
                more = reading.has_more(offset, upto, extent)
                return Found(wanted.topic, answer, extent if extent.size else None, more)
            return Found(wanted.topic, answer, extent if extent.size else None)
        except BrokerError as e:
            return Found(wanted.topic, PartitionFetched(partition.partition, int(e.code)))
        except DiskFault as fault:
            self._disk_failed(fault)
            code = int(ErrorCode.kafka_storage_error)
            return Found(wanted.topic, PartitionFetched(partition.partition, code))

    def _find(
        self, wanted: Wanted, request: FetchRequest, version: int
    ) -> tuple[LeaderReplica | None, Reading]:
        """The replica to read from: the leader, or a follower where that will do."""
        name, index = self._name_of(wanted.topic), wanted.partition.partition
        if name is None:
            raise BrokerError(ErrorCode.unknown_topic_id)
        leader = self._replicas.find(name, index)
        if leader is not None:
            _check_meant(wanted.topic, leader.topic_id)
            return leader, leader.reading
        if request.replica_id < 0 and version >= FROM_FOLLOWERS_SINCE:
            follower = self._replicas.follower(name, index)
            if follower is not None:
                _check_meant(wanted.topic, follower.topic_id)
                return None, Reading(follower.log, follower.high_watermark, follower.epoch)
        raise BrokerError(self._replicas.why_not(name, index))

    def _better_replica(
        self, leader: LeaderReplica | None, request: FetchRequest, offset: int
    ) -> BrokerId | None:
        if leader is None or self._selector is None or request.replica_id != CONSUMER:
            return None
        return self._selector.select(leader, request.rack_id, offset)

    def _must_wait(self, leader: LeaderReplica | None, request: FetchRequest) -> bool:
        replica = request.replica_id
        return replica >= 0 and (
            leader is not None and self._follower_fetches.must_wait(leader, replica)
        )

    def _leader(self, topic: TopicKey, index: int) -> LeaderReplica | None:
        """The leader of this very topic's partition, if it is here."""
        name = self._name_of(topic)
        leader = None if name is None else self._replicas.find(name, index)
        return leader if leader is None or _is_meant(topic, leader.topic_id) else None

    def _name_of(self, topic: TopicKey) -> str | None:
        if isinstance(topic, str):
            return topic
        return self._metadata.name_of(topic)

    def count_sent(self, fetched: Fetched) -> None:
        """Let the throttle know what a follower is given."""
        for found in fetched.found:
            name = self._name_of(found.topic)
            if found.extent is not None and name is not None:
                self._follower_fetches.on_sent(name, found.answer.partition, found.extent.size)

    # -- the answer ----------------------------------------------------------

    def answer(self, operation: "DelayedFetch", fetched: Fetched) -> Answer | Pending:
        """The response, at once if everything is in the page cache, otherwise when it is read."""
        buffers: list[Buffer] = []
        for found in fetched.found:
            warm = b"" if found.extent is None else self._warm(found, found.extent)
            if warm is None:
                return self._read_cold(operation, fetched)
            buffers.append(warm)
        return operation.response(fetched, buffers)

    def _warm(self, found: Found, extent: Extent) -> Buffer | None:
        try:
            return extent.warm()
        except DiskFault as fault:
            return self._unreadable(found, fault)

    def _unreadable(self, found: Found, fault: DiskFault) -> bytes:
        self._disk_failed(fault)
        code = int(ErrorCode.kafka_storage_error)
        found.answer = PartitionFetched(found.answer.partition, code)
        found.extent = None
        return b""

    def _read_cold(self, operation: "DelayedFetch", fetched: Fetched) -> Pending:
        async def read() -> Answer:
            buffers = [await self._load(found) for found in fetched.found]
            return operation.response(fetched, buffers)

        return self._work.answer(operation.pending or Pending(), "api=FETCH", read())

    async def _load(self, found: Found) -> Buffer:
        if found.extent is None:
            return b""
        try:
            return await self._offload(found.extent.load)
        except DiskFault as fault:
            return self._unreadable(found, fault)


class DelayedFetch(DelayedOperation):
    """A fetch, waiting for data or for its time to run out.

    `shortcut` makes the answer of one that most consumers send, if all is as usual and there is
    enough; the long way is for all others, and for what that one does not know.
    """

    def __init__(
        self,
        fetch: Fetch,
        request: FetchRequest,
        context: FetchContext,
        version: int,
        correlation_id: int,
        shortcut: Callable[[], list[Buffer] | None] | None = None,
    ) -> None:
        super().__init__()
        self._fetch = fetch
        self._request = request
        self._context = context
        self._version = version
        self._correlation_id = correlation_id
        # More than the answer may hold would never come.
        self._min_bytes = min(request.min_bytes, request.max_bytes, fetch.max_bytes)
        self._shortcut = shortcut
        self._short: list[Buffer] | None = None
        self._fetched: Fetched | None = None
        self._is_new = True
        self.pending: Pending | None = None

    def is_enough(self, fetched: Fetched) -> bool:
        return fetched.urgent or fetched.size >= self._min_bytes or not self._context.wanted

    def try_complete(self) -> bool:
        if self._is_new:
            # It begins to wait since there was not enough, and nothing has happened since.
            self._is_new = False
            return False
        if self._shortcut is not None:
            self._short = self._shortcut()
            if self._short is not None:
                return True
        fetched = self._fetch.collect(self._request, self._context, self._version)
        self._fetched = fetched if self.is_enough(fetched) else None
        return self._fetched is not None

    def on_complete(self) -> None:
        assert self.pending is not None
        answer: Answer | Pending | Refusal = Refusal("a bug in the broker")
        try:
            answer = self._short or self._long()
        finally:
            if not isinstance(answer, Pending):
                self.pending.answer(answer)

    def _long(self) -> Answer | Pending:
        fetched = self._fetched or self._fetch.collect(self._request, self._context, self._version)
        return self._fetch.answer(self, fetched)

    def response(self, fetched: Fetched, buffers: list[Buffer]) -> list[Buffer]:
        """The frame: what was found, with its records, less what the session need not tell."""
        if code := self._context.answering():
            self._fetch.errors[code] += 1
            return write_fetch(
                self._version, self._correlation_id, (), code, self._context.session_id
            )
        if self._request.replica_id >= 0:
            self._fetch.count_sent(fetched)
        topics: list[TopicFetched] = []
        last: TopicKey | None = None
        for found, records in zip(fetched.found, buffers, strict=True):
            got = found.answer._replace(records=records) if records else found.answer
            if got.code:
                self._fetch.errors[got.code] += 1
            if not self._context.worth_telling(found.topic, got):
                continue
            if found.topic is not last and found.topic != last:
                last = found.topic
                topics.append(
                    TopicFetched(last, None, [])
                    if isinstance(last, str)
                    else TopicFetched(None, last, [])
                )
            topics[-1].partitions.append(got)
        return write_fetch(
            self._version, self._correlation_id, topics, session_id=self._context.session_id
        )


def _is_meant(topic: TopicKey, topic_id: UUID | None) -> bool:
    """Whether a replica is of the topic that was asked for.

    One that was made anew under a name can be here before the metadata tells of its id.
    """
    return isinstance(topic, str) or topic_id is None or topic == topic_id


def _check_meant(topic: TopicKey, topic_id: UUID | None) -> None:
    if not _is_meant(topic, topic_id):
        raise BrokerError(ErrorCode.inconsistent_topic_id)


def _readable(reading: Reading, stable: Offset, request: FetchRequest) -> Offset:
    """How far the one who asks may read: all but consumers up to the end of the log."""
    if request.replica_id != CONSUMER:
        return reading.log.log_end_offset
    return stable if request.read_committed else reading.high_watermark
