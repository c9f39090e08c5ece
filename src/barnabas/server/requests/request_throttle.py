"""Throttling: a client beyond its quota gets `throttle_time_ms`, and is not read for so long.

Bytes of Produce requests and of Fetch responses are measured, and the time that requests take on
the event loop. The response leaves at once, as in Kafka (KIP-219). A Fetch beyond its quota gets
an empty response: its records are not counted, and the client asks again.
"""

import inspect
import struct
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from typing import Any, Final

from barnabas.base.clock import Stopwatch
from barnabas.security.client_quotas import NS_PER_PERCENT, ClientMeters, ClientQuotas
from barnabas.server.network.connection import Connection
from barnabas.server.requests.replies import Answer, Pending, Refusal, Reply
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.fetch.fetch_codec import write_fetch
from barnabas.wire.schema import Message, duration

_INT = struct.Struct(">i")
_PRODUCE: Final = int(ApiKey.PRODUCE)
_SESSION: Final = struct.Struct(">ihi")  # throttle time, error code, session id
_SESSIONS_SINCE: Final = 7
# Requests among brokers have no quota, if the client may send them.
EXEMPT: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.WRITE_TXN_MARKERS,
    }
)


class Throttle:
    """Measures the requests of clients that have a quota."""

    def __init__(self, quotas: ClientQuotas, stopwatch: Stopwatch) -> None:
        self._quotas = quotas
        self.stopwatch = stopwatch

    @property
    def is_used(self) -> bool:
        return self._quotas.is_used

    def meters(self, connection: Connection, client_id: str | None) -> ClientMeters | None:
        """The meters of the client, None if it has no quota. Also caps its next fetch."""
        found = self._quotas.of(connection.principal.name, client_id or "", connection.now())
        meters = found if found else None
        if meters is not connection.meters:
            connection.forget()  # its shortcuts count for the meters of before
            connection.meters = meters
        consume = found.consume
        connection.most_fetched = (
            None if consume is None else consume.most_at_once(*self._quotas.window)
        )
        return meters

    def on_response(
        self,
        response: Message | Awaitable[Message],
        meters: ClientMeters,
        began: int,
        client: Connection,
    ) -> Message | Awaitable[Message]:
        """The response, with the throttle time if the client is beyond its request quota.

        Of one that comes later only the time that it takes on the loop counts, not its waits.
        """
        if meters.request is None:
            return response
        took = self.stopwatch() - began
        if not inspect.isawaitable(response):
            return self._measured_message(response, meters, took, client)
        timed = _Timed(response, self.stopwatch, took)
        return after(timed, lambda done: self._measured_message(done, meters, timed.took, client))

    def _measured_message(
        self, response: Message, meters: ClientMeters, took: int, client: Connection
    ) -> Message:
        ms = self._request_ms(meters, took, client.now())
        if not ms:
            return response
        client.throttle(ms)
        if hasattr(response, "throttle_time"):
            return replace(response, throttle_time=duration(ms))
        return response

    def on_frame(
        self,
        version: int,
        frame_size: int,
        reply: Reply,
        meters: ClientMeters,
        began: int,
        client: Connection,
        is_produce: bool,
    ) -> Reply:
        """The same for Produce and Fetch, also if the response comes later."""
        took = self.stopwatch() - began
        if not isinstance(reply, Pending):
            return self._measured(version, frame_size, reply, meters, took, client, is_produce)
        later = reply.stand_in()

        def on_answer(answer: Answer | Refusal) -> None:
            if isinstance(answer, Refusal):
                later.answer(answer)
                return
            done = self._measured(version, frame_size, answer, meters, took, client, is_produce)
            assert not isinstance(done, Pending)
            later.answer(done or b"")

        reply.deliver_to(on_answer)
        return later

    def _measured(
        self,
        version: int,
        frame_size: int,
        reply: Reply,
        meters: ClientMeters,
        took: int,
        client: Connection,
        is_produce: bool,
    ) -> Reply:
        now = client.now()
        if is_produce:
            ms = 0 if meters.produce is None else meters.produce.record(frame_size, now)
            if reply:  # without a response (acks=0) the request quota does not count
                ms = max(ms, self._request_ms(meters, took, now))
            return self._throttled_produce(version, reply, ms, client)
        if client.is_follower or isinstance(reply, Pending | None):
            return reply
        size = len(reply) if isinstance(reply, bytes) else sum(map(len, reply))
        consume = meters.consume
        over = 0 if consume is None else consume.record(size, now)
        if over and consume is not None:
            consume.rate.record(-size, now)
        ms = max(over, self._request_ms(meters, took, now))
        if not ms:
            return reply
        client.throttle(ms)
        return _throttled_fetch(version, reply, ms, is_empty=over > 0)

    def _request_ms(self, meters: ClientMeters, took: int, now: float) -> int:
        if meters.request is None:
            return 0
        return min(
            meters.request.record(took / NS_PER_PERCENT, now),
            int(self._quotas.window.seconds * 1000),
        )

    def _throttled_produce(self, version: int, reply: Reply, ms: int, client: Connection) -> Reply:
        if not ms:
            return reply
        client.throttle(ms)
        if not isinstance(reply, bytes):
            return reply
        # The throttle time comes last, but for the tags that a flexible version ends with.
        tags = 1 if version >= APIS[ApiKey.PRODUCE].flexible else 0
        if not reply or (tags and reply[-1] != 0):
            return reply
        end = len(reply) - tags
        return reply[: end - 4] + _INT.pack(ms) + reply[end:]


def _throttled_fetch(version: int, reply: Answer, ms: int, *, is_empty: bool) -> Answer:
    parts = [reply] if isinstance(reply, bytes) else list(reply)
    at = 9 if version >= APIS[ApiKey.FETCH].flexible else 8
    if is_empty:
        (correlation_id,) = _INT.unpack_from(parts[0], 4)
        session_id = 0
        if version >= _SESSIONS_SINCE:
            _, _, session_id = _SESSION.unpack_from(parts[0], at)
        parts = list(write_fetch(version, correlation_id, (), 0, session_id))
    head = bytearray(parts[0])
    _INT.pack_into(head, at, ms)
    return [bytes(head), *parts[1:]]


def after(
    response: Message | Awaitable[Message], then: Callable[[Message], Message]
) -> Message | Awaitable[Message]:
    """`then` of the response, now or when it comes."""
    if not inspect.isawaitable(response):
        return then(response)

    async def later() -> Message:
        return then(await response)

    return later()


class _Timed(Generator[Any, None, Message]):
    """A response that comes later; `took` adds up the time on the loop that it takes."""

    def __init__(self, response: Awaitable[Message], stopwatch: Stopwatch, took: int) -> None:
        self._steps: Any = response.__await__()
        self._stopwatch = stopwatch
        self.took = took

    def __await__(self) -> Generator[Any, None, Message]:
        return self

    def send(self, value: None) -> Any:
        return self._timed(self._steps.send, value)

    def throw(self, *error: Any) -> Any:
        return self._timed(self._steps.throw, *error)

    def _timed(self, step: Callable[..., Any], *given: Any) -> Any:
        began = self._stopwatch()
        try:
            return step(*given)
        finally:
            self.took += self._stopwatch() - began
