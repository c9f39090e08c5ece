"""A fetch under way: at once, or waiting for data or for its time to run out."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from barnabas.base.laws import law
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.server.fetching.fetch_collector import FetchCollector, Fetched
from barnabas.server.fetching.fetch_partition import TopicKey, Wanted
from barnabas.server.fetching.fetch_sessions import FetchContext
from barnabas.server.requests.replies import Answer, Pending, Refusal
from barnabas.wire.fetch.fetch_codec import (
    Buffer,
    FetchRequest,
    PartitionFetched,
    TopicFetched,
    write_fetch,
)

# Makes the whole answer of a fetch that most consumers send, if all is as usual and there is
# enough.
Shortcut = Callable[[], list[Buffer] | None]


class FetchUnderWay:
    """One request, from the look at its partitions to the frame of its answer."""

    def __init__(
        self,
        collector: FetchCollector,
        request: FetchRequest,
        context: FetchContext,
        version: int,
        correlation_id: int,
        errors: Counter[int],
    ) -> None:
        """`errors` counts the codes that partitions and sessions are answered with."""
        self._collector = collector
        self.request = request
        self.context = context
        self._version = version
        self._correlation_id = correlation_id
        self._errors = errors
        # More than the answer may hold would never come.
        self._min_bytes = min(request.min_bytes, request.max_bytes, collector.max_bytes)

    def collect(self) -> Fetched:
        return self._collector.collect(self.request, self.context, self._version)

    def is_enough(self, fetched: Fetched) -> bool:
        if fetched.urgent or fetched.size >= self._min_bytes:
            return True
        context = self.context
        return not (context.wanted or context.named or context.session)

    def response(self, fetched: Fetched, buffers: list[Buffer]) -> list[Buffer]:
        """The frame: what was found, with its records, less what the session need not repeat."""
        context = self.context
        if code := context.answering():
            self._errors[code] += 1
            return write_fetch(self._version, self._correlation_id, (), code, context.session_id)
        if self.request.replica_id >= 0:
            self._collector.on_sent(fetched)
        sent: dict[Wanted, PartitionFetched | bytes] = {}
        for found, records in zip(fetched.found, buffers, strict=True):
            got = found.answer._replace(records=records) if records else found.answer
            if got.code:
                self._errors[got.code] += 1
            if context.worth_sending(found.wanted, got):
                sent[found.wanted] = got
        if context.named is not None:
            sent = {wanted: sent.get(wanted) or packed_answer(wanted) for wanted in context.named}
        return write_fetch(
            self._version, self._correlation_id, _by_topic(sent), session_id=context.session_id
        )


def packed_answer(wanted: Wanted) -> bytes:
    """The answer for a partition that rests. Keeps SRV-2."""
    law(wanted.packed != b"", "SRV-2 a partition that rests has its answer ready", key=wanted.key)
    return wanted.packed


def _by_topic(sent: Mapping[Wanted, PartitionFetched | bytes]) -> list[TopicFetched]:
    """Partitions in their order; those of one topic that follow each other go together."""
    topics: list[TopicFetched] = []
    last: TopicKey | None = None
    partitions: list[PartitionFetched | bytes] = []
    for wanted, got in sent.items():
        topic = wanted.topic
        if topic is not last and topic != last:
            last, partitions = topic, []
            topics.append(
                TopicFetched(topic, None, partitions)
                if isinstance(topic, str)
                else TopicFetched(None, topic, partitions)
            )
        partitions.append(got)
    return topics


class DelayedFetch(DelayedOperation):
    """A fetch that waits. It looks once for all that happens in one turn of the loop."""

    def __init__(
        self,
        fetch: FetchUnderWay,
        answer: Callable[[FetchUnderWay, Fetched, Pending], Answer | Pending],
        shortcut: Shortcut | None,
    ) -> None:
        """`answer` makes the answer of what was found, or gives it to the pending one later."""
        super().__init__()
        self._fetch = fetch
        self._answer = answer
        self._shortcut = shortcut
        self._short: list[Buffer] | None = None
        self._fetched: Fetched | None = None
        self._looks_soon = False
        self.pending = Pending(on_abandoned=self.abandon)
        if fetch.context.repeated is not None:
            fetch.context.repeated.waiting = self

    def abandon(self) -> None:
        """The client went away."""
        self._leave_session()
        if self.purgatory is not None:
            self.purgatory.cancel(self)

    def on_event(self) -> bool:
        if not self._looks_soon and self.purgatory is not None:
            self._looks_soon = True
            asyncio.get_running_loop().call_soon(self.purgatory.check, self)
        return False

    def try_complete(self) -> bool:
        self._looks_soon = False
        if self._shortcut is not None:
            self._short = self._shortcut()
            if self._short is not None:
                return True
        context = self._fetch.context
        context.refresh()
        fetched = self._fetch.collect()
        if self._fetch.is_enough(fetched):
            self._fetched = fetched
        elif self.purgatory is not None:
            context.listen(self.purgatory)
        return self._fetched is not None

    def on_complete(self) -> None:
        self._leave_session()
        answer: Answer | Pending | Refusal = Refusal("a bug in the broker")
        try:
            answer = self._short or self._long()
        finally:
            if not isinstance(answer, Pending):
                self.pending.answer(answer)

    def _long(self) -> Answer | Pending:
        fetched = self._fetched
        if fetched is None:
            self._fetch.context.refresh()
            fetched = self._fetch.collect()
        return self._answer(self._fetch, fetched, self.pending)

    def _leave_session(self) -> None:
        repeated = self._fetch.context.repeated
        if repeated is not None and repeated.waiting is self:
            repeated.waiting = None
