"""The security of a connection: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.

SASL mechanisms are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. The properties are those
of Kafka's Java client; librdkafka's names for the same things work too.
"""

import struct
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.base.errors import BarnabasError, ConfigError
from barnabas.base.randomness import Random
from barnabas.client.frames import MalformedResponse
from barnabas.client.oauth_login import OauthLogin
from barnabas.config.jaas import jaas_options

if TYPE_CHECKING:
    import ssl

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_HEADER = struct.Struct(">ihhih")
_SASL_HANDSHAKE: Final = 17
_SASL_AUTHENTICATE: Final = 36
_SASL_VERSION: Final = 1

# Returns the frame of a request with this correlation id.
Frame = Callable[[int], bytes]


class AuthenticationFailed(BarnabasError):
    """One side does not trust the other, and will not in a second attempt."""


@dataclass(frozen=True, slots=True)
class Login:
    """A SASL mechanism, and the user and password for it."""

    mechanism: str
    username: str
    password: str = field(repr=False)
    oauth: OauthLogin | None = field(default=None, repr=False)
    is_token: bool = False  # a delegation token: its id and HMAC


@dataclass(frozen=True, slots=True)
class SecurityContext:
    """The security that every connection of one client has."""

    login: Login | None = None
    tls: "ssl.SSLContext | None" = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "SecurityContext":
        """Raises  ConfigError, which begins with the property's name"""
        protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
        if protocol not in PROTOCOLS:
            raise ConfigError(
                f"security.protocol is {protocol!r}, must be one of {', '.join(PROTOCOLS)}"
            )
        return cls(
            _login(properties) if protocol.startswith("SASL") else None,
            _tls(properties) if protocol.endswith("SSL") else None,
        )

    def check_tls_failure(self, failure: Exception, broker: str) -> None:
        """Raises  AuthenticationFailed, unless the broker just went away"""
        if self.tls is None:
            return
        import ssl

        if isinstance(failure, ssl.SSLError) and not isinstance(failure, ssl.SSLEOFError):
            why = getattr(failure, "verify_message", "") or failure.strerror or str(failure)
            raise AuthenticationFailed(f"TLS with the broker at {broker} fails: {why}") from None

    def authenticate(
        self, broker: str, client_id: str, token: bytes | None = None
    ) -> Generator[Frame, memoryview, None]:
        """The frames of a SASL login, each to be sent after the last one's response is given.

        `token` is the first message of OAUTHBEARER; without it the token is fetched, which may
        wait for the network.

        Raises  AuthenticationFailed, if the broker refuses, or does not prove itself
                MalformedResponse, if a response is cut short
        """
        if self.login is None:
            return
        try:
            yield from _handshake(self.login, broker, client_id)
            yield from _exchange_tokens(self.login, broker, client_id, token)
        except struct.error as failure:
            raise MalformedResponse(f"SASL: {failure}") from None


PLAINTEXT: Final = SecurityContext()


# -- SASL --------------------------------------------------------------------


def _handshake(login: Login, broker: str, client_id: str) -> Generator[Frame, memoryview, None]:
    name = login.mechanism.encode()
    response = yield _frame(_SASL_HANDSHAKE, client_id, struct.pack(">h", len(name)) + name)
    (code,) = struct.unpack_from(">h", response)
    if code:
        raise AuthenticationFailed(
            f"the broker at {broker} does not have the SASL mechanism {login.mechanism}"
        )


def _exchange_tokens(
    login: Login, broker: str, client_id: str, first: bytes | None
) -> Generator[Frame, memoryview, None]:
    from barnabas.client.scram import ScramFailed

    tokens = _tokens(login, first)
    try:
        token = next(tokens)
        while True:
            body = struct.pack(">i", len(token)) + token
            response = yield _frame(_SASL_AUTHENTICATE, client_id, body)
            token = tokens.send(_token(response))
    except StopIteration:
        return
    except (ScramFailed, _Refused) as refused:
        raise AuthenticationFailed(
            f"the broker at {broker} refuses {login.username}: {refused}"
        ) from None


def _tokens(login: Login, first: bytes | None) -> Generator[bytes, bytes, None]:
    """The tokens of the mechanism; each `send` gives the broker's token in return."""
    if login.mechanism == "PLAIN":
        yield f"\0{login.username}\0{login.password}".encode()
        return
    if login.oauth is not None:
        if failure := (yield first or login.oauth.first_message()):
            # The broker sends its error only after this answer to its failure (RFC 7628).
            yield b"\x01"
            raise _Refused(failure.decode("utf-8", "replace"))
        return
    from barnabas.client.scram import HASHES, ScramClient

    nonce = Random().uuid().hex
    scram = ScramClient(
        HASHES[login.mechanism], login.username, login.password, nonce, login.is_token
    )
    server_first = yield scram.first()
    scram.verify((yield scram.final(server_first)))


class _Refused(BarnabasError):
    """The broker does not accept the user or the password."""


def _token(response: memoryview) -> bytes:
    """The broker's token in a response of SaslAuthenticate. Raises _Refused."""
    code, length = struct.unpack_from(">hh", response)
    position = 4 + max(0, length)
    if code:
        raise _Refused(str(response[4:position], "utf-8", "replace") or f"error {code}")
    (size,) = struct.unpack_from(">i", response, position)
    return bytes(response[position + 4 : position + 4 + max(0, size)])


def _frame(api: int, client_id: str, body: bytes) -> Frame:
    client = client_id.encode()
    size = _HEADER.size - 4 + len(client) + len(body)
    return lambda correlation_id: (
        _HEADER.pack(size, api, _SASL_VERSION, correlation_id, len(client)) + client + body
    )


# -- properties --------------------------------------------------------------


def _login(properties: Mapping[str, str]) -> Login:
    given = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", ""))
    mechanism = given.strip().upper()
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"sasl.mechanism is {mechanism!r}, must be one of {', '.join(MECHANISMS)}"
        )
    jaas = properties.get("sasl.jaas.config", "")
    said = jaas_options(jaas) if jaas.strip() else {}
    if mechanism == "OAUTHBEARER":
        return Login(mechanism, "the token", "", OauthLogin.of(properties, said))
    username = said.get("username", properties.get("sasl.username"))
    password = said.get("password", properties.get("sasl.password"))
    if username is None or password is None:
        raise ConfigError('sasl.jaas.config must say username="..." and password="..."')
    is_token = said.get("tokenauth", "").lower() == "true"
    return Login(mechanism, username, password, is_token=is_token)


def _tls(properties: Mapping[str, str]) -> "ssl.SSLContext":
    from barnabas.client.tls import client_context  # most clusters need none of it

    return client_context(properties)
