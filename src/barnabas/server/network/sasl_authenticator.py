"""Authentication of one connection on a SASL listener.

It serves the connection's frames until the client is authenticated, then the dispatcher serves
them: an authenticated request costs nothing more. It serves again when the client authenticates
again, or when the session is over (KIP-368).
"""

import asyncio
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from barnabas.base.clock import Clock
from barnabas.base.errors import BarnabasError, ErrorCode
from barnabas.base.randomness import Random
from barnabas.security.principal import Principal
from barnabas.security.sasl import Conversation, SaslFailed, SaslListener
from barnabas.security.scram_credentials import ScramCredentials
from barnabas.security.token_cache import TokenCache
from barnabas.server.network.authentication_state import (
    NEXT,
    AuthenticationEvent,
    AuthenticationState,
)
from barnabas.server.network.connection_ports import Serve
from barnabas.server.requests.replies import Pending, Refusal, Reply
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import MalformedRequest, Message, read_as_sent, write_response
from barnabas.wire.varint import Truncated, skip_tags

if TYPE_CHECKING:
    from barnabas.server.network.connection import Connection

_HEADER = struct.Struct(">hhih")
_SIZE = struct.Struct(">i")
# A client may begin to authenticate again so often.
_REAUTHENTICATED_AGAIN_AFTER_S: Final = 1.0
S, E = AuthenticationState, AuthenticationEvent


class IllegalSaslState(BarnabasError):
    """The client may not send this frame now; the connection closes."""


@dataclass(frozen=True, slots=True)
class SaslPorts:
    """The parts and limits that all authentications share."""

    credentials: ScramCredentials
    tokens: TokenCache
    clock: Clock
    random: Random
    max_token_bytes: int
    max_request_bytes: int
    failed_delay_s: float
    timeout_s: float


class SaslAuthenticator:
    """See `connection_ports.Authentication`; as a function it serves one frame."""

    __slots__ = (
        "_before",
        "_conversation",
        "_deadline",
        "_listener",
        "_listeners",
        "_mechanism",
        "_name",
        "_ports",
        "_serve",
        "_session",
        "_started_at",
        "_state",
    )

    def __init__(
        self,
        listeners: Mapping[str, SaslListener],
        name: str,
        ports: SaslPorts,
        serve: Serve,
    ) -> None:
        """Each handshake uses what `listeners` has for this name then."""
        self._listeners = listeners
        self._name = name
        self._listener = listeners[name]
        self._ports = ports
        self._serve = serve  # the requests of an authenticated client
        self._state = S.INITIAL
        self._mechanism = ""
        self._conversation: Conversation | None = None
        self._before: tuple[str, Principal] | None = None  # mechanism and principal
        self._started_at: float | None = None  # the last time that it authenticated again
        self._deadline: asyncio.TimerHandle | None = None
        self._session: asyncio.TimerHandle | None = None

    def begin(self, connection: "Connection", transport: asyncio.BaseTransport) -> None:
        """See `connection_ports.Authentication`."""
        connection.is_stranger = True
        connection.serve_with(self, self._ports.max_token_bytes)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._ports.timeout_s, self._late, connection)

    def end(self) -> None:
        """See `connection_ports.Authentication`."""
        for timer in (self._deadline, self._session):
            if timer is not None:
                timer.cancel()
        self._conversation = None

    def _on(self, event: AuthenticationEvent) -> None:
        self._state = NEXT[self._state][event]

    def _late(self, connection: "Connection") -> None:
        connection.close_stranger(
            f"not authenticated within {self._ports.timeout_s:g} s,"
            " barnabas.authentication.timeout.ms"
        )
        connection.abort()

    def __call__(self, frame: memoryview, connection: "Connection") -> Reply:
        """Serve one frame. Raises BarnabasError: the connection closes."""
        if self._state is S.BARE_TOKENS:
            return self._bare_token(bytes(frame), connection)
        key, version, correlation_id, position = _read_header(frame)
        if self._state is S.TOKENS:
            if key != ApiKey.SASL_AUTHENTICATE:
                raise self._illegal(key, "authentication")
            sent = read_as_sent(ApiKey.SASL_AUTHENTICATE, version, frame[position:])
            return self._token(bytes(sent.auth_bytes), version, correlation_id, connection)
        if key == ApiKey.API_VERSIONS and self._state is S.INITIAL:
            if APIS[ApiKey.API_VERSIONS].serves(version):
                self._on(E.VERSIONS)
            return self._serve(frame, connection)
        if key == ApiKey.SASL_HANDSHAKE and self._state is not S.FAILED:
            sent = read_as_sent(ApiKey.SASL_HANDSHAKE, version, frame[position:])
            return self._handshake(sent.mechanism, version, correlation_id, connection)
        if self._state is S.EXPIRED:
            raise IllegalSaslState("the session is over, connections.max.reauth.ms")
        if key == ApiKey.SASL_AUTHENTICATE:
            return self._refuse_early(version, correlation_id, connection)
        raise self._illegal(key, "handshake")

    def _illegal(self, key: int, phase: str) -> IllegalSaslState:
        if self._state is not S.FAILED:
            self._on(E.REFUSED)
        name = ApiKey(key).name if key in set(ApiKey) else str(key)
        return IllegalSaslState(f"ILLEGAL_SASL_STATE: {name} during SASL {phase}")

    # -- the handshake -------------------------------------------------------

    def _handshake(
        self, mechanism: str, version: int, correlation_id: int, connection: "Connection"
    ) -> Reply:
        answer = write_response(
            ApiKey.SASL_HANDSHAKE,
            version,
            correlation_id,
            self.handshake(mechanism, version, connection),
        )
        if self._state is S.FAILED:
            return self._fail_later(answer, connection, f"mechanism {mechanism!r}")
        return answer

    def handshake(self, mechanism: str, version: int, connection: "Connection") -> Message:
        """Begin a conversation, the first or another one; returns the response.

        A client of which the dispatcher serves the frames calls it to authenticate again.
        """
        from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

        def response(code: ErrorCode) -> Message:
            return SaslHandshakeResponse(error_code=code, mechanisms=self._listener.mechanisms)

        if self._is_too_soon():
            return response(ErrorCode.illegal_sasl_state)
        self._listener = self._listeners[self._name]
        if not self._offers(mechanism):
            self._on(E.REFUSED)
            connection.serve_with(self, self._ports.max_token_bytes)
            return response(ErrorCode.unsupported_sasl_mechanism)
        self._mechanism = mechanism
        self._conversation = self._listener.begin(
            mechanism, self._ports.credentials, self._ports.tokens, self._ports.random
        )
        self._on(E.HANDSHAKE_V0 if version == 0 else E.HANDSHAKE)
        connection.serve_with(self, self._ports.max_token_bytes)
        return response(ErrorCode.none)

    def _is_too_soon(self) -> bool:
        if self._before is None:
            return False
        now, last = asyncio.get_running_loop().time(), self._started_at
        if last is not None and now - last < _REAUTHENTICATED_AGAIN_AFTER_S:
            return True
        self._started_at = now
        return False

    def _offers(self, mechanism: str) -> bool:
        """As in Kafka, a client that authenticates again uses the same mechanism."""
        if self._before is not None and self._before[0] != mechanism:
            return False
        return mechanism in self._listener.mechanisms

    # -- tokens --------------------------------------------------------------

    def _token(
        self, token: bytes, version: int, correlation_id: int, connection: "Connection"
    ) -> Reply:
        try:
            ours, lifetime_ms = self._respond(token, connection)
        except SaslFailed as failure:
            answer = _answer(
                version,
                correlation_id,
                ErrorCode.sasl_authentication_failed,
                failure.message or self._invalid_credentials(),
            )
            return self._fail_later(answer, connection, str(failure))
        return _answer(version, correlation_id, ErrorCode.none, None, ours, lifetime_ms)

    def _bare_token(self, token: bytes, connection: "Connection") -> Reply:
        """A client of version 0 of SaslHandshake learns of a failure only by the closing."""
        try:
            ours, _ = self._respond(token, connection)
        except SaslFailed as failure:
            return self._fail_later(None, connection, str(failure))
        return _SIZE.pack(len(ours)) + ours

    def _respond(self, token: bytes, connection: "Connection") -> tuple[bytes, int]:
        """Our token, and how long the session lasts; 0 without a limit. Raises SaslFailed."""
        assert self._conversation is not None
        ours = self._conversation.respond(token, self._ports.clock.now_ms())
        identity = self._conversation.identity
        if identity is None:
            self._on(E.CHALLENGED)
            return ours, 0
        principal = Principal(identity.name, is_token=identity.is_token)
        if self._before is not None and self._before[1] != principal:
            raise SaslFailed(
                f"Cannot change principals during re-authentication from {self._before[1]} to"
                f" {principal}"
            )
        return ours, self._accept(principal, identity.expires_ms, connection)

    def _accept(
        self, principal: Principal, expires_ms: int | None, connection: "Connection"
    ) -> int:
        self.end()
        self._on(E.ACCEPTED)
        self._before = (self._mechanism, principal)
        connection.principal = principal
        connection.is_stranger = False
        connection.serve_with(self._serve, self._ports.max_request_bytes)
        lifetime_ms = self._lifetime_ms(expires_ms)
        if lifetime_ms is None:
            return 0
        loop = asyncio.get_running_loop()
        self._session = loop.call_later(lifetime_ms / 1000, self._session_over, connection)
        return max(1, lifetime_ms)

    def _lifetime_ms(self, expires_ms: int | None) -> int | None:
        limits = [self._listener.max_reauth_ms.get(self._mechanism, 0)]
        limits = [limit for limit in limits if limit > 0]
        if expires_ms is not None:
            limits.append(max(0, expires_ms - self._ports.clock.now_ms()))
        return min(limits, default=None)

    def _session_over(self, connection: "Connection") -> None:
        """Serve nothing more but another authentication."""
        self._session = None
        self._on(E.SESSION_OVER)
        connection.serve_with(self, self._ports.max_token_bytes)

    # -- failures ------------------------------------------------------------

    def _invalid_credentials(self) -> str:
        again = "authentication" if self._before is None else "re-authentication"
        return (
            f"Authentication failed during {again} due to invalid credentials with SASL mechanism"
            f" {self._mechanism}"
        )

    def _refuse_early(self, version: int, correlation_id: int, connection: "Connection") -> Reply:
        answer = _answer(
            version,
            correlation_id,
            ErrorCode.illegal_sasl_state,
            "SaslAuthenticate request received before SASL handshake.",
        )
        return self._fail_later(answer, connection, "SaslAuthenticate before SaslHandshake")

    def _fail_later(self, answer: bytes | None, connection: "Connection", why: str) -> Pending:
        """Answer and close, after a delay that makes guessing slow."""
        if self._state is not S.FAILED:
            self._on(E.REFUSED)
        connection.log_once(
            "authentication failed peer=%s listener=%s mechanism=%s why=%s",
            connection.peer,
            connection.listener,
            self._mechanism or "none",
            why,
        )
        pending = Pending()
        asyncio.get_running_loop().call_later(
            self._ports.failed_delay_s, _close, pending, answer, connection
        )
        return pending


def _close(pending: Pending, answer: bytes | None, connection: "Connection") -> None:
    if not pending.abandoned:
        pending.answer(Refusal("authentication failed") if answer is None else answer)
        connection.close_quietly()


def _read_header(frame: memoryview) -> tuple[int, int, int, int]:
    """Key, version, correlation id and where the body begins. Raises MalformedRequest."""
    try:
        key, version, correlation_id, length = _HEADER.unpack_from(frame)
    except struct.error:
        raise Truncated(f"a frame of {len(frame)} bytes holds no request header") from None
    position = 10 + max(0, length)
    if key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        api = APIS[ApiKey(key)]
        if not api.serves(version):
            raise MalformedRequest(f"{ApiKey(key).name} version {version} is not served")
        if version >= api.flexible:
            position = skip_tags(frame, position)
    if position > len(frame):
        raise Truncated("the client id reaches past the end of the request")
    return key, version, correlation_id, position


def _answer(
    version: int,
    correlation_id: int,
    code: ErrorCode,
    message: str | None,
    token: bytes = b"",
    lifetime_ms: int = 0,
) -> bytes:
    from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
    from kio.static.primitive import i64Timedelta

    response = SaslAuthenticateResponse(
        error_code=code,
        error_message=message,
        auth_bytes=token,
        session_lifetime=i64Timedelta.parse(timedelta(milliseconds=lifetime_ms)),
    )
    return write_response(ApiKey.SASL_AUTHENTICATE, version, correlation_id, response)
