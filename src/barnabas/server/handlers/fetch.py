"""Fetch (1): batches from the page cache to the socket, now or when there is enough of them.

A fetch that finds less than `min_bytes`, and leaves nothing behind that it could read, waits in
the purgatory until there is more in one of its partitions, or for `max_wait_ms`. Consumers read
what is committed, from the leader or, since version 11, from a follower; followers read all that
the leader has, and report by it what they have themselves (`follower_fetches`). `max_bytes` bounds
the answer and each partition's own limit its share; see `fetch_collector`.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final

from barnabas.base.errors import BrokerError
from barnabas.base.offload import Offload
from barnabas.purgatory.delayed_operation import DelayedOperation, Purgatory
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.delayed.delayed_fetch import DelayedFetch, RepeatedAt
from barnabas.server.delayed.large_fetch import LargeFetch, is_large
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.fetching.cached_partitions import NamedPartitions, TopicKey
from barnabas.server.fetching.fetch_collector import FetchCollector
from barnabas.server.fetching.fetch_responder import FetchCall, FetchResponder
from barnabas.server.fetching.fetch_sessions import NO_SESSION, FetchSessions, reader_of
from barnabas.server.network.connection import Connection
from barnabas.server.requests.repeated_fetch import RepeatedFetch
from barnabas.server.requests.replies import Answer, Pending, Refusal, Reply, given
from barnabas.wire.fetch.fetch_codec import (
    BY_TOPIC_ID,
    FetchRequest,
    read_fetch,
    write_fetch,
)
from barnabas.wire.fetch.single_answer import SingleAnswer, single_answer
from barnabas.wire.fetch.single_fetch import SingleFetch, read_single_fetch
from barnabas.wire.varint import Truncated

# In bytes: a request of more, of some 10,000 partitions, is decoded in a thread.
LARGE_REQUEST: Final = 256 * 1024
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
        responder: FetchResponder,
        offload: Offload,
        errors: Counter[int],
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._sessions = sessions
        self._delayed = delayed
        self._collector = collector
        self._responder = responder
        self._offload = offload
        self._answers: dict[tuple[int, TopicKey, int, bool], SingleAnswer] = {}
        self._errors = errors  # by code, what sessions were refused with

    def __call__(
        self,
        version: int,
        correlation_id: int,
        frame: memoryview,
        position: int,
        connection: Connection,
    ) -> Reply:
        single = read_single_fetch(version, frame, position)
        repeated: RepeatedAt | None = None
        if (
            single is not None
            and self._collector.selector is None
            and self._collector.may_read(single.topic, connection)
        ):
            again = RepeatedFetch(
                single,
                self._answer_ready(version, single),
                frame,
                self._replicas.find,
                self._metadata.name_of,
                self._most(connection),
            )
            answer = again.answer(single.fetch_offset, correlation_id)
            if answer is not None:
                connection.is_follower = False
                connection.remember(frame, single.offset_at, again)
                return answer
            if single.min_bytes <= 1:  # else each batch that comes would have all of them read
                repeated = RepeatedAt(
                    again,
                    single.fetch_offset,
                    correlation_id,
                    self._collector,
                    single.topic,
                    connection,
                )
        if len(frame) - position > LARGE_REQUEST:
            return self._read_elsewhere(version, correlation_id, frame, position, connection)
        known = connection.fetches if single is None else None
        request = read_fetch(version, frame, position, None if known is None else known.memo)
        named = self._named(request, version, connection) if single is None else None
        return self._serve(request, version, correlation_id, connection, named, repeated)

    def _read_elsewhere(
        self,
        version: int,
        correlation_id: int,
        frame: memoryview,
        position: int,
        connection: Connection,
    ) -> Pending:
        """Decode the request in a thread, then serve it."""
        pending, arrived_ms = Pending(is_read=False), self._responder.now_ms()
        known = connection.fetches
        memo = None if known is None else known.memo

        async def serve() -> Answer | Refusal:
            try:
                request = await self._offload(partial(read_fetch, version, frame, position, memo))
            except Truncated as malformed:
                return Refusal(str(malformed))
            finally:
                pending.read()
            if pending.abandoned:
                return b""
            named = self._named(request, version, connection)
            reply = self._serve(
                request, version, correlation_id, connection, named, None, arrived_ms
            )
            return await given(reply, pending) if isinstance(reply, Pending) else reply

        return self._responder.answer_later(pending, serve())

    def _serve(
        self,
        request: FetchRequest,
        version: int,
        correlation_id: int,
        connection: Connection,
        named: NamedPartitions | None,
        repeated: RepeatedAt | None,
        arrived_ms: float | None = None,
    ) -> Answer | Pending:
        """`arrived_ms` is now if it is not said."""
        try:
            context = self._sessions.begin(request, by_id=version >= BY_TOPIC_ID, named=named)
        except BrokerError as e:
            self._errors[int(e.code)] += 1
            return write_fetch(version, correlation_id, (), int(e.code))
        # A replica id is easily forged: only a follower that may be one has no quota.
        connection.is_follower = request.replica_id >= 0 and self._collector.may_follow(connection)
        if connection.most_fetched is not None and not connection.is_follower:
            most = min(request.max_bytes, connection.most_fetched)
            request = replace(request, max_bytes=most, min_bytes=min(request.min_bytes, most))
        call = FetchCall(request, context, version, correlation_id, connection)
        if is_large(call):
            purgatory, is_follower = self._purgatory(request), connection.is_follower
            return LargeFetch(
                call,
                self._responder,
                waits_in=purgatory,
                is_follower=is_follower,
                arrived_ms=arrived_ms,
            ).begin()
        if connection.is_follower:
            self._collector.note_follower(request, context.wanted, arrived_ms)
            context.refresh()
        fetched = self._responder.collect(call)
        if request.max_wait_ms <= 0 or self._responder.is_enough(call, fetched):
            return self._responder.respond(call, fetched)
        return self._wait(call, repeated)

    def _most(self, connection: Connection) -> int:
        """The most bytes of a response: a client's quota may allow less than the broker does."""
        most = connection.most_fetched
        return self._collector.max_bytes if most is None else min(most, self._collector.max_bytes)

    def _named(
        self, request: FetchRequest, version: int, connection: Connection
    ) -> NamedPartitions | None:
        """The partitions that a consumer without a session names again and again."""
        if request.session_epoch != NO_SESSION or request.replica_id >= 0 or connection.is_closing:
            return None  # a connection that was lost meanwhile would keep them for ever
        known, reader = connection.fetches, reader_of(request)
        count, more = self._sessions.count, sum(len(topic.partitions) for topic in request.topics)
        kept = 0 if known is None else len(known)
        too_many = more > MOST_NAMED or (more > kept and not count.has_room(more - kept))
        if known is None or too_many or (known.reader, known.version) != (reader, version):
            if known is not None:
                known.close()
            connection.fetches = None if too_many else NamedPartitions(reader, version, count)
        return connection.fetches

    def _wait(self, call: FetchCall, repeated: RepeatedAt | None) -> Pending:
        """Respond when there is enough, or the time is over."""
        purgatory = self._purgatory(call.request)
        operation = DelayedFetch(call, self._responder, repeated)
        call.context.listen(purgatory)
        purgatory.watch(operation, call.context.keys(), call.context.wait_ms(call.request))
        return operation.pending

    def _purgatory(self, request: FetchRequest) -> Purgatory[DelayedOperation]:
        return self._delayed.followers if request.replica_id >= 0 else self._delayed.consumers

    def _answer_ready(self, version: int, single: SingleFetch) -> SingleAnswer:
        key = (version, single.topic, single.partition, single.read_committed)
        ready = self._answers.get(key)
        if ready is None:
            if len(self._answers) >= REMEMBERED:
                self._answers.clear()
            ready = self._answers[key] = single_answer(*key)
        return ready
