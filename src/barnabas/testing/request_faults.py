"""Faults of client requests: delayed responses, and responses with an error.

Requests between brokers are never touched, because a failing Fetch is meant for a consumer, but for
one: the markers that end transactions may be delayed.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.client.requests import read_response
from barnabas.server.network.connection import Connection
from barnabas.server.network.connection_ports import Serve
from barnabas.server.requests.error_responses import marked, refuse
from barnabas.server.requests.replies import Answer, Pending, Refusal, Reply
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import Message, read_as_sent, write_response
from barnabas.wire.varint import skip_tags

_HEADER: Final = Struct(">hhih")
_ANSWER_HEAD: Final = 8  # size and correlation id

Give = Callable[[Answer | Refusal], None]


@dataclass(slots=True)
class _Failing:
    """The next `left` requests of an API fail, at one broker or at any."""

    key: ApiKey
    code: ErrorCode
    left: int
    broker: int | None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A decoded client request."""

    key: ApiKey
    version: int
    correlation_id: int
    message: Message

    def answer(self, response: Message) -> bytes:
        return write_response(self.key, self.version, self.correlation_id, response)


class RequestFaults:
    """The request faults of a cluster: set by the test's thread, applied on the brokers' loops."""

    def __init__(self, is_client: Callable[[int], bool]) -> None:
        self._is_client = is_client
        self._lock = threading.Lock()
        self._failing: list[_Failing] = []
        self._delays: dict[tuple[ApiKey, int | None], float] = {}
        self._marker_delays: dict[int | None, float] = {}

    def delay(self, key: ApiKey, seconds: float, broker: int | None) -> None:
        self._delays[key, broker] = seconds

    def delay_markers(self, seconds: float, broker: int | None) -> None:
        """Serve WriteTxnMarkers requests of brokers so much later, and markers without one."""
        self._marker_delays[broker] = seconds

    def fail_next(self, key: ApiKey, code: ErrorCode, times: int, broker: int | None) -> None:
        with self._lock:
            self._failing.append(_Failing(key, code, times, broker))

    def clear(self) -> None:
        """Remove all faults; responses that are being delayed stay delayed."""
        with self._lock:
            self._failing.clear()
        self._delays = {}
        self._marker_delays = {}

    def of(self, broker: int) -> "BrokerFaults":
        return BrokerFaults(self, broker)

    def around(self, broker: int, serve: Serve) -> Serve:
        """Wrap `serve` with the faults of one broker."""

        def served(frame: memoryview, connection: Connection, /) -> Reply:
            if not self._is_client(connection.port):
                seconds = self._marker_delay(frame, broker)
                return (
                    _held(serve, frame, connection, seconds)
                    if seconds
                    else serve(frame, connection)
                )
            reply = self._failed(broker, serve, frame, connection)
            if reply is None:
                reply = serve(frame, connection)
                # The connection's fast path would bypass the faults.
                connection.forget()
            seconds = self._delay_of(frame, broker)
            return _later(reply, seconds) if seconds else reply

        return served

    def _marker_delay(self, frame: memoryview, broker: int) -> float:
        if not self._marker_delays or _HEADER.unpack_from(frame)[0] != ApiKey.WRITE_TXN_MARKERS:
            return 0
        return self.marker_delay_s(broker)

    def marker_delay_s(self, broker: int) -> float:
        return self._marker_delays.get(broker) or self._marker_delays.get(None, 0)

    def _delay_of(self, frame: memoryview, broker: int) -> float:
        if not self._delays:
            return 0
        key = ApiKey(_HEADER.unpack_from(frame)[0])
        return self._delays.get((key, broker)) or self._delays.get((key, None), 0)

    def _failed(
        self, broker: int, serve: Serve, frame: memoryview, connection: Connection
    ) -> Answer | Pending | None:
        """The reply with the error, or None if this request is to be served."""
        if not self._failing or (asked := _read(frame)) is None:
            return None
        with self._lock:
            failing = self._find(asked.key, broker)
            if failing is None:
                return None
            if asked.key is ApiKey.METADATA:
                # A request for the brokers only has no place for an error code.
                if asked.message.topics == ():
                    return None
                self._use_up(failing)
                reply = serve(frame, connection)
                return _then(reply, lambda answer, give: give(_mark(asked, answer, failing.code)))
            if _leaves_partitions_out(asked) and failing.code is not _NO_SESSION:
                # The error is one of partitions: make the client send all of them again.
                response = refuse(asked.key, asked.version, asked.message, _NO_SESSION)
                return asked.answer(response)
            response = refuse(asked.key, asked.version, asked.message, failing.code)
            if response is None:
                return None
            self._use_up(failing)
        if asked.key is ApiKey.PRODUCE and asked.message.acks == 0:
            return _closed(f"{failing.code.name} by request of the test; acks=0 has no response")
        return asked.answer(response)

    def _find(self, key: ApiKey, broker: int) -> _Failing | None:
        for failing in self._failing:
            if failing.key is key and failing.broker in (None, broker):
                return failing
        return None

    def _use_up(self, failing: _Failing) -> None:
        failing.left -= 1
        if not failing.left:
            self._failing.remove(failing)


class BrokerFaults:
    """The faults of one broker; an `Interception`."""

    def __init__(self, faults: RequestFaults, broker: int) -> None:
        self._faults = faults
        self._broker = broker

    def around(self, serve: Serve) -> Serve:
        return self._faults.around(self._broker, serve)

    def marker_delay_s(self) -> float:
        return self._faults.marker_delay_s(self._broker)


_NO_SESSION: Final = ErrorCode.fetch_session_id_not_found


def _read(frame: memoryview) -> _Asked | None:
    """The request in a frame; None if its API or version is not served."""
    number, version, correlation_id, length = _HEADER.unpack_from(frame)
    api = APIS.get(number)
    if api is None or not api.serves(version):
        return None
    key = ApiKey(number)
    position = _HEADER.size + max(length, 0)
    if version >= api.flexible:
        position = skip_tags(frame, position)
    return _Asked(key, version, correlation_id, read_as_sent(key, version, frame[position:]))


def _leaves_partitions_out(asked: _Asked) -> bool:
    return asked.key is ApiKey.FETCH and getattr(asked.message, "session_id", 0) != 0


def _mark(asked: _Asked, answer: Answer | Refusal, code: ErrorCode) -> Answer | Refusal:
    if not isinstance(answer, bytes):
        return answer
    said = read_response(asked.key, asked.version, memoryview(answer)[_ANSWER_HEAD:])
    return asked.answer(marked(said, code))


def _closed(why: str) -> Pending:
    pending = Pending()
    pending.answer(Refusal(why))
    return pending


def _later(reply: Reply, seconds: float) -> Pending:
    loop = asyncio.get_running_loop()
    return _then(reply, lambda answer, give: loop.call_later(seconds, give, answer))


def _held(serve: Serve, frame: memoryview, connection: Connection, seconds: float) -> Pending:
    """The reply of a request that is served later, though its sender may be gone by then."""
    copied, later = memoryview(bytes(frame)), Pending()

    def on_answer(answer: Answer | Refusal) -> None:
        if not later.abandoned:
            later.answer(answer)

    def serve_now() -> None:
        reply = serve(copied, connection)
        if isinstance(reply, Pending):
            reply.deliver_to(on_answer)
        else:
            on_answer(b"" if reply is None else reply)

    asyncio.get_running_loop().call_later(seconds, serve_now)
    return later


def _then(reply: Reply, do: Callable[[Answer | Refusal, Give], object]) -> Pending:
    """A reply that is complete when `do`, called with the answer of `reply`, calls `give`."""
    later = reply.stand_in() if isinstance(reply, Pending) else Pending()

    def give(answer: Answer | Refusal) -> None:
        if not later.abandoned:
            later.answer(answer)

    def on_answer(answer: Answer | Refusal) -> None:
        do(answer, give)

    if isinstance(reply, Pending):
        reply.deliver_to(on_answer)
    else:
        on_answer(b"" if reply is None else reply)
    return later
