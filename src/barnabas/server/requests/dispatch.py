"""The dispatcher: reads the request header of a frame, checks its version, calls the handler.

Two kinds of handlers. A *frame handler* (Produce, Fetch) is given the frame and answers
in bytes: it is on the hot path. A *message handler* is given the request as a kio entity
of the newest version and returns a response of the newest version, or a coroutine that
will: it need not know which version the client speaks.
"""

import asyncio
import inspect
import logging
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from barnabas.base.errors import BarnabasError, LawBroken
from barnabas.base.offload import InlineOffload, Offload
from barnabas.replication.replicas import Replicas
from barnabas.security.authorizer import Authorizer
from barnabas.security.client_quotas import ClientMeters
from barnabas.server.metrics.request_statistics import RequestStatistics, error_codes
from barnabas.server.network.connection import Connection
from barnabas.server.requests.access import EVERYTHING, Access, Rights, admit, joined
from barnabas.server.requests.converted_responses import ConvertedResponses
from barnabas.server.requests.large_requests import LargeRequests, LargeTurn
from barnabas.server.requests.old_formats import is_old_format, newer_request, older_answer
from barnabas.server.requests.replies import Answer, Pending, Refusal, Reply, Work, given
from barnabas.server.requests.request_throttle import EXEMPT, Throttle, after
from barnabas.server.requests.startup_gate import StartupGate
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.bounds import has_more_elements
from barnabas.wire.schema import (
    LONGEST_REPEATED,
    REPEATED,
    MalformedRequest,
    Message,
    newest,
    read_again,
    read_as_sent,
    write_response,
)
from barnabas.wire.varint import Truncated, skip_tags

log = logging.getLogger("barnabas.dispatch")

T = TypeVar("T")

_HEADER = struct.Struct(">hhih")
# Larger requests, and responses with more elements, are decoded and encoded in a thread. A request
# of this size may have 2,700 elements of three bytes each.
LARGE_REQUEST: Final = 8 * 1024
LARGE_RESPONSE: Final = 1000
_REPEATED: Final = frozenset(map(int, REPEATED))  # by plain numbers, as in `Dispatch`
# These wait for other clients; what they bring is bounded with its group.
_WAIT_FOR_CLIENTS: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)


class UnsupportedRequest(BarnabasError):
    """No such API or version here; Kafka closes the connection without an answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """The context of a request, for message handlers: its version, client and connection."""

    version: int
    sent: Message  # the request in the client's own version
    client_id: str | None
    connection: Connection
    served: tuple[ApiKey, ...]  # every API that has a handler here
    access: Access = EVERYTHING
    meters: ClientMeters | None = None  # without a quota there are none


# version, correlation id, the frame, and where the body begins in it
FrameHandler = Callable[[int, int, memoryview, int, Connection], Reply]
MessageHandler = Callable[[Any, Call], Any | Awaitable[Any]]


class RepeatedRequests(Protocol):
    """Serves messages that come again and again, byte for byte."""

    def serve(self, key: int, version: int, correlation_id: int, body: memoryview) -> bytes | None:
        """The response; None leaves it to the handler, and nothing was done."""


class Dispatch:
    """Serves frames with the handlers it was given; an API without one is not served."""

    def __init__(
        self,
        frame_handlers: Mapping[ApiKey, FrameHandler],
        message_handlers: Mapping[ApiKey, MessageHandler],
        unsupported_api_versions: Callable[[int], bytes],
        work: Work,
        statistics: RequestStatistics,
        offload: Offload | None = None,
        gate: StartupGate | None = None,
        authorizer: Authorizer | None = None,
        throttle: Throttle | None = None,
        replicas: Replicas | None = None,
        repeated: RepeatedRequests | None = None,
    ) -> None:
        """`replicas` know whether the records of a partition are for old clients, too.

        `repeated` is asked before a message handler, where neither rights nor quotas are looked at.
        """
        self._served = tuple(sorted({**frame_handlers, **message_handlers}))
        # By plain numbers, which are found without comparing them as enum members.
        self._apis = {int(key): APIS[key] for key in self._served}
        self._frame_handlers = {int(key): handler for key, handler in frame_handlers.items()}
        self._message_handlers = message_handlers
        self._unsupported_api_versions = unsupported_api_versions
        self._work = work
        self._statistics = statistics
        self._offload = offload or InlineOffload()
        self._gate = gate
        self._authorizer = authorizer
        self._throttle = throttle
        self._replicas = Replicas() if replicas is None else replicas
        self._repeated = repeated
        self._rewriting = asyncio.Lock()
        self._converted = ConvertedResponses()
        self._large = LargeRequests()

    def __call__(self, frame: memoryview, connection: Connection) -> Reply:
        """Serve one frame; see `connection_ports.Serve`."""
        try:
            key, version, correlation_id, length = _HEADER.unpack_from(frame)
        except struct.error:
            raise Truncated(f"a frame of {len(frame)} bytes holds no request header") from None
        api = self._apis.get(key)
        if api is None:
            raise UnsupportedRequest(f"API {key} version {version} is not served")
        if not api.lowest <= version <= api.highest:
            if key == ApiKey.API_VERSIONS:
                return self._unsupported_api_versions(correlation_id)
            if is_old_format(key, version):
                return self._rewritten(key, version, frame, connection)
            raise UnsupportedRequest(
                f"{ApiKey(key).name} version {version} is not served, "
                f"only {api.lowest} to {api.highest}"
            )
        position = 10 + length if length > 0 else 10
        if version >= api.flexible:
            # Nearly always there are no tags, and one byte says so.
            if position < len(frame) and frame[position] == 0:
                position += 1
            else:
                position = skip_tags(frame, position)
        if position > len(frame):
            raise Truncated("the client id reaches past the end of the request")
        if self._gate is not None:
            if self._gate.holds(key):
                return self._held(key, frame, connection, self._gate)
            if not self._gate.is_closed:
                self._gate = None
        handler = self._frame_handlers.get(key)
        if handler is not None:
            if self._throttle is None or not self._throttle.is_used:
                return handler(version, correlation_id, frame, position, connection)
            return self._metered(
                self._throttle, handler, version, correlation_id, frame, position, connection
            )
        if (
            key in _REPEATED
            and self._repeated is not None
            and self._authorizer is None
            and (self._throttle is None or not self._throttle.is_used)
        ):
            answer = self._repeated.serve(key, version, correlation_id, frame[position:])
            if answer is not None:
                return answer
        client_id = _client_id(frame, length)
        return self._message(
            ApiKey(key), version, correlation_id, client_id, frame[position:], connection
        )

    def _metered(
        self,
        throttle: Throttle,
        handler: FrameHandler,
        version: int,
        correlation_id: int,
        frame: memoryview,
        position: int,
        connection: Connection,
    ) -> Reply:
        """Serve Produce or Fetch, and measure it if its client has a quota."""
        key, _, _, length = _HEADER.unpack_from(frame)
        meters = throttle.meters(connection, _client_id(frame, length))
        began, size = throttle.stopwatch(), len(frame)
        reply = handler(version, correlation_id, frame, position, connection)
        if meters is None:
            return reply
        is_produce = key == ApiKey.PRODUCE
        return throttle.on_frame(version, size, reply, meters, began, connection, is_produce)

    def _held(
        self, key: int, frame: memoryview, connection: Connection, gate: StartupGate
    ) -> Pending:
        """Serve a copy of the request when the broker has started that far."""
        copy, pending = bytearray(frame), Pending()

        async def serve() -> Answer | Refusal:
            await gate.passed(key)
            try:
                reply = self(memoryview(copy), connection)
            except LawBroken:
                raise
            except BarnabasError as error:
                return Refusal(str(error))
            return await given(reply, pending) if isinstance(reply, Pending) else reply or b""

        what = f"api={ApiKey(key).name} peer={connection.peer}"
        return self._work.answer(pending, what, serve())

    def _rewritten(
        self, key: int, version: int, frame: memoryview, connection: Connection
    ) -> Reply:
        """Serve the request in a version with record batches.

        One at a time, away from the loop: the records of a request become objects.
        """
        pending = Pending(is_read=False)

        async def serve() -> Answer | Refusal:
            request = await self._rewrite(
                pending, lambda: newer_request(key, version, bytes(frame))
            )
            pending.read()
            if request is None:
                return b""
            reply = self(memoryview(request.frame), connection)
            answer = await given(reply, pending) if isinstance(reply, Pending) else reply or b""
            if isinstance(answer, Refusal):
                return answer
            known = request.known
            if key == ApiKey.FETCH:
                known = {each: known[each] for each in known if self._replicas.down_converts(*each)}
            # The records stay in the page cache until their turn: many clients may wait for theirs.
            most = self._converted.most(is_copied=connection.copies_responses)
            first = next(self._converted.turns)
            older = await self._rewrite(
                pending, lambda: older_answer(key, version, answer, known, most, first)
            )
            if not older:
                return b""
            self._converted.count(older)
            return [older]

        async def refusing() -> Answer | Refusal:
            try:
                return await serve()
            except LawBroken:
                raise
            except BarnabasError as error:
                return Refusal(str(error))
            finally:
                pending.read()

        what = f"api={ApiKey(key).name} peer={connection.peer}"
        return self._work.answer(pending, what, refusing())

    async def _rewrite(self, pending: Pending, rewrite: Callable[[], T]) -> T | None:
        """Rewrite in a thread, one request at a time; None if the client is gone by then."""
        async with self._rewriting:
            return None if pending.abandoned else await self._offload(rewrite)

    def _message(
        self,
        key: ApiKey,
        version: int,
        correlation_id: int,
        client_id: str | None,
        body: memoryview,
        connection: Connection,
    ) -> Reply:
        what = f"api={key.name} peer={connection.peer}"
        if len(body) > LARGE_REQUEST:
            turn = self._large.turn(len(body), among_brokers=key in EXEMPT)
            pending = Pending(turn.abandon, is_read=False)
            making = self._read_elsewhere(
                turn, pending, key, version, correlation_id, client_id, body, connection
            )
            return self._work.answer(pending, what, making)
        began = 0 if self._throttle is None else self._throttle.stopwatch()
        adapted: Callable[[ApiKey, Message], Message] = newest
        if key in REPEATED and len(body) <= LONGEST_REPEATED:
            sent, request = read_again(key, version, bytes(body))
            adapted = partial(_adapted, sent, request)
        else:
            sent = read_as_sent(key, version, body)
        response = self._handled(key, version, sent, adapted, client_id, connection, began)
        if not inspect.isawaitable(response) and not has_more_elements(response, LARGE_RESPONSE):
            self._statistics.count_errors(key, response)
            return write_response(key, version, correlation_id, response)
        making = self._later(key, version, correlation_id, response)
        return self._work.answer(Pending(), what, making)

    async def _read_elsewhere(
        self,
        turn: LargeTurn,
        pending: Pending,
        key: ApiKey,
        version: int,
        correlation_id: int,
        client_id: str | None,
        body: memoryview,
        connection: Connection,
    ) -> Answer | Refusal:
        """Serve a large request in its turn; decode it in a thread, so that no other client waits
        for it.
        """

        def read() -> tuple[Message, Message]:
            sent = read_as_sent(key, version, body)
            return sent, newest(key, sent)

        try:
            await turn.begun()
            sent, request = await self._offload(read)
            pending.read()
            if key in _WAIT_FOR_CLIENTS:
                turn.end()

            adapted = partial(_adapted, sent, request)
            began = 0 if self._throttle is None else self._throttle.stopwatch()
            response = self._handled(key, version, sent, adapted, client_id, connection, began)
            return await self._later(key, version, correlation_id, response)
        except MalformedRequest as error:
            return Refusal(str(error))
        finally:
            turn.end()
            pending.read()

    def _handled(
        self,
        key: ApiKey,
        version: int,
        sent: Message,
        adapted: Callable[[ApiKey, Message], Message],
        client_id: str | None,
        connection: Connection,
        began: int,
    ) -> Message | Awaitable[Message]:
        """The response to what the client has a right to, and the refusal of the rest."""
        throttle, meters = self._throttle, None
        if throttle is not None and throttle.is_used and not connection.is_stranger:
            meters = throttle.meters(connection, client_id)
        access: Access = EVERYTHING
        admitted: Message | None = sent
        refused: Sequence[Message] = ()
        if self._authorizer is not None:
            access = Rights(self._authorizer, connection, key)
            admitted, refused = admit(key, version, sent, access)
        response: Message | Awaitable[Message]
        if admitted is None:
            response = joined(key, version, refused[0], refused[1:])
        else:
            call = Call(version, admitted, client_id, connection, self._served, access, meters)
            response = self._message_handlers[key](adapted(key, admitted), call)
            if refused:
                response = after(response, lambda done: joined(key, version, done, refused))
        if throttle is None or meters is None or (admitted is not None and key in EXEMPT):
            return response
        return throttle.on_response(response, meters, began, connection)

    async def _later(
        self, key: ApiKey, version: int, correlation_id: int, response: Message | Awaitable[Any]
    ) -> Answer | Refusal:
        if inspect.isawaitable(response):
            response = await response
        write = partial(write_response, key, version, correlation_id, response)
        if not has_more_elements(response, LARGE_RESPONSE):
            self._statistics.count_errors(key, response)
            return write()
        count: Callable[[], Counter[int]] = partial(Counter, error_codes(response))
        errors = await self._offload(count)
        self._statistics.add_errors(key, errors)
        return await self._offload(write)


def _adapted(sent: Message, request: Message, key: ApiKey, admitted: Message) -> Message:
    """The admitted part of a request in the newest version; `request` is all of `sent` in it."""
    return request if admitted is sent else newest(key, admitted)


def _client_id(frame: memoryview, length: int) -> str | None:
    if length < 0:
        return None
    try:
        return str(frame[10 : 10 + length], "utf-8")
    except UnicodeDecodeError:
        raise Truncated("the client id is not text") from None
