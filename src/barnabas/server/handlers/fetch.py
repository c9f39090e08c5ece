"""Fetch (1): batches from the page cache to the socket, now or when there is enough of them.

A fetch that finds less than `min_bytes`, and leaves nothing behind that it could read, waits in
the purgatory until there is more in one of its partitions, or for `max_wait_ms`. Consumers read
what is committed, from the leader or, since version 11, from a follower; followers read all that
the leader has, and report by it what they have themselves (`follower_fetches`). `max_bytes` bounds
the answer and each partition's own limit its share; see `fetch_collector`.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.offload import Offload
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.delayed.delayed_fetch import DelayedFetch, FetchUnderWay, Shortcut
from barnabas.server.delayed.partition_purgatories import Delayed, Key
from barnabas.server.fetching.fetch_collector import FetchCollector, Fetched, Found
from barnabas.server.fetching.fetch_partition import NamedPartitions, TopicKey
from barnabas.server.fetching.fetch_sessions import NO_SESSION, FetchSessions, reader_of
from barnabas.server.network.connection import Connection
from barnabas.server.requests.repeated_fetch import RepeatedFetch
from barnabas.server.requests.replies import Answer, Pending, Reply, Work
from barnabas.wire.fetch.fetch_codec import (
    BY_TOPIC_ID,
    Buffer,
    FetchRequest,
    PartitionFetched,
    read_fetch,
    write_fetch,
)
from barnabas.wire.fetch.single_answer import SingleAnswer, single_answer
from barnabas.wire.fetch.single_fetch import SingleFetch, read_single_fetch

# How many partitions' answers are kept ready.
REMEMBERED: Final = 10_000
# How many partitions are kept for a client that names them without a session.
MOST_NAMED: Final = 50_000


class Fetch:
    """Serves consumers and followers."""

    def __init__(
        self,
        replicas: Replicas,
        metadata: MetadataCache,
        sessions: FetchSessions,
        delayed: Delayed,
        collector: FetchCollector,
        offload: Offload,
        disk_failed: Callable[[DiskFault], None],
        work: Work,
        errors: Counter[int],
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._sessions = sessions
        self._delayed = delayed
        self._collector = collector
        self._offload = offload
        self._disk_failed = disk_failed
        self._answers: dict[tuple[int, TopicKey, int, bool], SingleAnswer] = {}
        self._work = work
        self._errors = errors  # by code, what partitions and sessions were answered with

    def __call__(
        self,
        version: int,
        correlation_id: int,
        frame: memoryview,
        position: int,
        connection: Connection,
    ) -> Reply:
        single = read_single_fetch(version, frame, position)
        shortcut: Shortcut | None = None
        if single is not None and self._collector.selector is None:
            again = RepeatedFetch(
                single,
                self._answer_ready(version, single),
                frame,
                self._replicas.find,
                self._metadata.name_of,
                self._collector.max_bytes,
            )
            answer = again.answer(single.fetch_offset, correlation_id)
            if answer is not None:
                connection.remember(frame, single.offset_at, again)
                return answer
            if single.min_bytes <= 1:  # else each batch that comes would have all of them read
                shortcut = partial(again.answer, single.fetch_offset, correlation_id)
        known = connection.fetches if single is None else None
        request = read_fetch(version, frame, position, None if known is None else known.memo)
        named = self._named(request, version, connection) if single is None else None
        try:
            context = self._sessions.begin(request, by_id=version >= BY_TOPIC_ID, named=named)
        except BrokerError as e:
            self._errors[int(e.code)] += 1
            return write_fetch(version, correlation_id, (), int(e.code))
        if request.replica_id >= 0:
            self._collector.note_follower(request, context)
            context.refresh()
        under_way = FetchUnderWay(
            self._collector, request, context, version, correlation_id, self._errors
        )
        fetched = under_way.collect()
        if under_way.is_enough(fetched) or request.max_wait_ms <= 0:
            return self._answer(under_way, fetched)
        return self._wait(under_way, shortcut)

    def _named(
        self, request: FetchRequest, version: int, connection: Connection
    ) -> NamedPartitions | None:
        """The partitions that a consumer without a session names again and again."""
        if request.session_epoch != NO_SESSION or request.replica_id >= 0:
            return None
        known, reader = connection.fetches, reader_of(request)
        too_many = sum(len(topic.partitions) for topic in request.topics) > MOST_NAMED
        if known is None or too_many or (known.reader, known.version) != (reader, version):
            if known is not None:
                known.close()
            connection.fetches = None if too_many else NamedPartitions(reader, version)
        return connection.fetches

    def _wait(self, under_way: FetchUnderWay, shortcut: Shortcut | None) -> Pending:
        """Answer when there is enough, or the time is over."""
        request, context = under_way.request, under_way.context
        purgatory = self._delayed.followers if request.replica_id >= 0 else self._delayed.consumers
        operation = DelayedFetch(under_way, self._answer, shortcut)
        max_wait_ms = request.max_wait_ms
        keys: list[Key] = []
        if context.repeated is None:
            keys = [wanted.key for wanted in context.wanted if wanted.key is not None]
        elif context.session is not None and request.replica_id < 0 and request.min_bytes <= 1:
            max_wait_ms = context.session.wait_ms(max_wait_ms)
        context.listen(purgatory)
        purgatory.watch(operation, keys, max_wait_ms)
        return operation.pending

    def _answer_ready(self, version: int, single: SingleFetch) -> SingleAnswer:
        key = (version, single.topic, single.partition, single.read_committed)
        ready = self._answers.get(key)
        if ready is None:
            if len(self._answers) >= REMEMBERED:
                self._answers.clear()
            ready = self._answers[key] = single_answer(*key)
        return ready

    def _answer(
        self, under_way: FetchUnderWay, fetched: Fetched, pending: Pending | None = None
    ) -> Answer | Pending:
        """The response, at once if everything is in the page cache, otherwise when it is read."""
        buffers: list[Buffer] = []
        for found in fetched.found:
            warm = self._warm(found) if found.extent.size else b""
            if warm is None:
                return self._read_cold(under_way, fetched, pending or Pending())
            buffers.append(warm)
        return under_way.response(fetched, buffers)

    def _warm(self, found: Found) -> Buffer | None:
        try:
            return found.extent.warm()
        except DiskFault as fault:
            return self._unreadable(found, fault)

    def _unreadable(self, found: Found, fault: DiskFault) -> bytes:
        self._disk_failed(fault)
        code = int(ErrorCode.kafka_storage_error)
        found.answer = PartitionFetched(found.answer.partition, code)
        return b""

    def _read_cold(self, under_way: FetchUnderWay, fetched: Fetched, pending: Pending) -> Pending:
        async def read() -> Answer:
            buffers = [await self._load(found) for found in fetched.found]
            return under_way.response(fetched, buffers)

        return self._work.answer(pending, "api=FETCH", read())

    async def _load(self, found: Found) -> Buffer:
        if not found.extent.size:
            return b""
        try:
            return await self._offload(found.extent.load)
        except DiskFault as fault:
            return self._unreadable(found, fault)
