"""The response to a Fetch: records from the page cache or the disk, in one frame."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from barnabas.base.errors import DiskFault, ErrorCode
from barnabas.base.failures import FailureChannel
from barnabas.base.laws import law
from barnabas.base.offload import Offload
from barnabas.base.turns import in_turns
from barnabas.security.authorizer import Client
from barnabas.server.fetching.cached_partitions import CachedPartition, TopicKey
from barnabas.server.fetching.fetch_collector import FetchCollector, Fetched, Found
from barnabas.server.fetching.fetch_sessions import FetchContext, FetchSessions
from barnabas.server.requests.replies import Answer, Pending, Refusal, Work
from barnabas.wire.fetch.fetch_codec import (
    Buffer,
    FetchRequest,
    PartitionFetched,
    TopicFetched,
    write_fetch,
)

# The first version whose clients know KAFKA_STORAGE_ERROR.
KNOWS_STORAGE_ERROR: Final = 6


@dataclass(slots=True)
class FetchCall:
    """One Fetch request: its body, its session, and the header of its response."""

    request: FetchRequest
    context: FetchContext
    version: int
    correlation_id: int
    client: Client

    def is_enough(self, fetched: Fetched, max_bytes: int) -> bool:
        """True if it is time to respond; more than a response may hold would never come."""
        request, context = self.request, self.context
        if fetched.urgent or fetched.size >= min(request.min_bytes, request.max_bytes, max_bytes):
            return True
        return not (context.wanted or context.named or context.session)

    def response(self, sent: Mapping[CachedPartition, PartitionFetched]) -> list[Buffer]:
        """The frame of what is sent; a client without a session gets all partitions it named."""
        context, partitions = self.context, dict[CachedPartition, PartitionFetched | bytes](sent)
        if context.named is not None:
            partitions = {each: sent.get(each) or packed_answer(each) for each in context.named}
        return write_fetch(
            self.version,
            self.correlation_id,
            _by_topic(partitions),
            session_id=context.session_id,
        )

    def error(self, code: ErrorCode) -> list[Buffer]:
        """The frame of a response that is only an error."""
        session_id = self.context.session_id
        return write_fetch(self.version, self.correlation_id, (), code, session_id)


class FetchResponder:
    """Reads the located records and responds; it updates the session and the throttle."""

    def __init__(
        self,
        collector: FetchCollector,
        sessions: FetchSessions,
        offload: Offload,
        failures: FailureChannel,
        work: Work,
        errors: Counter[int],
    ) -> None:
        """`errors` counts the codes that are sent for partitions and sessions."""
        self._collector = collector
        self._sessions = sessions
        self._offload = offload
        self._failures = failures
        self._work = work
        self._errors = errors
        self.turn = asyncio.Lock()  # of a part of a large fetch

    def collect(self, call: FetchCall) -> Fetched:
        """Locate what can be sent now; partitions with nothing new rest until they change."""
        fetched = self._collector.collect(call.request, call.context, call.version, call.client)
        self._collector.rest(fetched, call.request, call.version)
        return fetched

    def now_ms(self) -> float:
        """When a fetch arrives."""
        return self._collector.now_ms()

    def note_follower(
        self, call: FetchCall, part: Sequence[CachedPartition], arrived_ms: float
    ) -> None:
        """Note a follower's progress in a part of its partitions."""
        self._collector.note_follower(call.request, part, arrived_ms)

    def collect_part(
        self, call: FetchCall, fetched: Fetched, part: Sequence[CachedPartition], behind: int
    ) -> list[Buffer | None]:
        """As `collect`, for a part with so many partitions `behind` it; return its records.

        They are None where the disk has to be read.
        """
        request, version = call.request, call.version
        found = self._collector.collect_part(fetched, part, behind, request, version, call.client)
        self._collector.rest(fetched, request, version)
        fetched.idle.clear()
        return [self._warm(each) if each.extent.size else b"" for each in found]

    def is_enough(self, call: FetchCall, fetched: Fetched) -> bool:
        return call.is_enough(fetched, self._collector.max_bytes)

    def answer_later(self, pending: Pending, making: Awaitable[Answer | Refusal]) -> Pending:
        """Respond when `making` has made the response."""
        return self._work.answer(pending, "api=FETCH", making)

    def respond(
        self, call: FetchCall, fetched: Fetched, pending: Pending | None = None
    ) -> Answer | Pending:
        """The response, or `pending` if a thread has to read some of the records from the disk."""
        buffers: list[Buffer] = []
        for found in fetched.found:
            warm = self._warm(found) if found.extent.size else b""
            if warm is None:
                reading = self._respond_cold(call, fetched)
                return self._work.answer(pending or Pending(), "api=FETCH", reading)
            buffers.append(warm)
        return self._send(call, fetched, buffers)

    def _warm(self, found: Found) -> Buffer | None:
        try:
            return found.extent.warm()
        except DiskFault as fault:
            return self._unreadable(found, fault)

    async def _respond_cold(self, call: FetchCall, fetched: Fetched) -> Answer:
        buffers = [await self._load(found) for found in fetched.found]
        return self._send(call, fetched, buffers)

    async def load_cold(self, fetched: Fetched, warm: Sequence[Buffer | None]) -> list[Buffer]:
        """The records of each partition; those that are not `warm` are read from the disk."""
        pairs = zip(fetched.found, warm, strict=True)
        return [await self._load(found) if records is None else records for found, records in pairs]

    async def respond_in_turns(
        self, call: FetchCall, fetched: Fetched, buffers: Sequence[Buffer]
    ) -> Answer:
        """The response to a fetch of many partitions; others are served while it is made."""
        if code := self._begin_sending(call, fetched):
            return call.error(code)
        sent: dict[CachedPartition, PartitionFetched] = {}
        async for found, records in in_turns(zip(fetched.found, buffers, strict=True)):
            self._add(call, found, records, sent)
        return await self._offload(partial(call.response, sent))

    async def _load(self, found: Found) -> Buffer:
        if not found.extent.size:
            return b""
        try:
            return found.extent.mapped(await self._offload(found.extent.load))
        except DiskFault as fault:
            return self._unreadable(found, fault)

    def _unreadable(self, found: Found, fault: DiskFault) -> bytes:
        self._failures.disk_failed(fault)
        code = int(ErrorCode.kafka_storage_error)
        found.answer = PartitionFetched(found.answer.partition, code)
        return b""

    def _send(self, call: FetchCall, fetched: Fetched, buffers: list[Buffer]) -> list[Buffer]:
        if code := self._begin_sending(call, fetched):
            return call.error(code)
        sent: dict[CachedPartition, PartitionFetched] = {}
        for found, records in zip(fetched.found, buffers, strict=True):
            self._add(call, found, records, sent)
        return call.response(sent)

    def _begin_sending(self, call: FetchCall, fetched: Fetched) -> ErrorCode:
        """Update the session and the throttle; an error is all that is sent."""
        if code := self._sessions.complete(call.context):
            self._errors[code] += 1
        elif call.request.replica_id >= 0:
            self._collector.on_sent(fetched)
        return code

    def _add(
        self,
        call: FetchCall,
        found: Found,
        records: Buffer,
        sent: dict[CachedPartition, PartitionFetched],
    ) -> None:
        """Add a partition to what is sent, unless the client knows all of it."""
        context, got = call.context, found.answer
        if records:
            got = got._replace(records=records)
        if got.code:
            got = _as_known(got, call.version)
            self._errors[got.code] += 1
        if context.is_worth_sending(found.wanted, got):
            sent[found.wanted] = got
        context.on_sent(found.wanted, got)


def _as_known(got: PartitionFetched, version: int) -> PartitionFetched:
    """The response with an error that clients of this version know, and try again upon."""
    if got.code == ErrorCode.kafka_storage_error and version < KNOWS_STORAGE_ERROR:
        return got._replace(code=int(ErrorCode.not_leader_or_follower))
    return got


def packed_answer(partition: CachedPartition) -> bytes:
    """The part of the response for a partition that rests. Keeps SRV-2."""
    law(
        partition.packed != b"",
        "SRV-2 a partition that rests has its answer ready",
        key=partition.key,
    )
    return partition.packed


def _by_topic(sent: Mapping[CachedPartition, PartitionFetched | bytes]) -> list[TopicFetched]:
    """Partitions in their order; those of one topic that follow each other go together."""
    topics: list[TopicFetched] = []
    last: TopicKey | None = None
    partitions: list[PartitionFetched | bytes] = []
    for each, got in sent.items():
        topic = each.topic
        if topic is not last and topic != last:
            last, partitions = topic, []
            topics.append(
                TopicFetched(topic, None, partitions)
                if isinstance(topic, str)
                else TopicFetched(None, topic, partitions)
            )
        partitions.append(got)
    return topics
