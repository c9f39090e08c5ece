"""A Fetch that waits until there is enough to read, or its time is over."""

import asyncio

from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.security.authorizer import Client
from barnabas.server.delayed.large_fetch import LargeFetch, is_large
from barnabas.server.fetching.cached_partitions import TopicKey
from barnabas.server.fetching.fetch_collector import FetchCollector, Fetched
from barnabas.server.fetching.fetch_responder import FetchCall, FetchResponder
from barnabas.server.requests.repeated_fetch import RepeatedFetch
from barnabas.server.requests.replies import Answer, Pending, Refusal
from barnabas.wire.fetch.fetch_codec import Buffer


class DelayedFetch(DelayedOperation):
    """Checks its partitions once for all that happens to them in one turn of the loop.

    `repeated` makes the whole response of most consumers' fetches, if all is as usual.
    """

    def __init__(
        self, call: FetchCall, responder: FetchResponder, repeated: "RepeatedAt | None"
    ) -> None:
        super().__init__()
        self._call = call
        self._responder = responder
        self._repeated = repeated
        self._response: list[Buffer] | None = None
        self._fetched: Fetched | None = None
        self._checks_soon = False
        self.pending = Pending(on_abandoned=self.abandon)
        if call.context.repeated is not None:
            call.context.repeated.waiting = self

    def abandon(self) -> None:
        """The client disconnected."""
        self._leave_session()
        if self.purgatory is not None:
            self.purgatory.cancel(self)

    def on_event(self) -> bool:
        if not self._checks_soon and self.purgatory is not None:
            self._checks_soon = True
            asyncio.get_running_loop().call_soon(self.purgatory.check, self)
        return False

    def try_complete(self) -> bool:
        self._checks_soon = False
        if self._repeated is not None:
            self._response = self._repeated.response()
            if self._response is not None:
                return True
        context = self._call.context
        context.refresh()
        if is_large(self._call):
            return True  # `_respond` looks at them in turns
        fetched = self._responder.collect(self._call)
        if self._responder.is_enough(self._call, fetched):
            self._fetched = fetched
        elif self.purgatory is not None:
            context.listen(self.purgatory)
        return self._fetched is not None

    def on_complete(self) -> None:
        self._leave_session()
        answer: Answer | Pending | Refusal = Refusal("a bug in the broker")
        try:
            answer = self._response or self._respond()
        finally:
            if not isinstance(answer, Pending):
                self.pending.answer(answer)

    def _respond(self) -> Answer | Pending:
        fetched = self._fetched
        if fetched is None:
            self._call.context.refresh()
            if is_large(self._call):
                return LargeFetch(self._call, self._responder, self.pending).begin()
            fetched = self._responder.collect(self._call)
        return self._responder.respond(self._call, fetched, self.pending)

    def _leave_session(self) -> None:
        repeated = self._call.context.repeated
        if repeated is not None and repeated.waiting is self:
            repeated.waiting = None


class RepeatedAt:
    """A repeated Fetch at one offset."""

    __slots__ = ("_client", "_collector", "_correlation_id", "_offset", "_repeated", "_topic")

    def __init__(
        self,
        repeated: RepeatedFetch,
        offset: int,
        correlation_id: int,
        collector: FetchCollector,
        topic: TopicKey,
        client: Client,
    ) -> None:
        self._collector = collector
        self._topic = topic
        self._client = client
        self._repeated = repeated
        self._offset = offset
        self._correlation_id = correlation_id

    def response(self) -> list[Buffer] | None:
        """The whole response, or None if the request takes the long way."""
        if not self._collector.may_read(self._topic, self._client):
            return None  # the right was revoked while the fetch waited
        return self._repeated.answer(self._offset, self._correlation_id)
