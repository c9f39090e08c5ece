"""The security of a connection: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.

SASL mechanisms are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. The properties are those of Kafka's
Java client; librdkafka's names for the same things work too. Certificates and keys are PEM, the
one form that Python reads.
"""

import re
import struct
import tempfile
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.base.errors import BarnabasError, ConfigError
from barnabas.base.randomness import Random
from barnabas.client.frames import MalformedResponse

if TYPE_CHECKING:
    import ssl

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_JAAS: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_TO_PEM: Final = "openssl pkcs12 -in STORE -out STORE.pem"
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

    def authenticate(self, broker: str, client_id: str) -> Generator[Frame, memoryview, None]:
        """The frames of a SASL login, each to be sent after the last one's response is given.

        Raises  AuthenticationFailed, if the broker refuses, or does not prove itself
                MalformedResponse, if a response is cut short
        """
        if self.login is None:
            return
        try:
            yield from _handshake(self.login, broker, client_id)
            yield from _exchange_tokens(self.login, broker, client_id)
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
    login: Login, broker: str, client_id: str
) -> Generator[Frame, memoryview, None]:
    from barnabas.client.scram import ScramFailed

    tokens = _tokens(login)
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


def _tokens(login: Login) -> Generator[bytes, bytes, None]:
    """The tokens of the mechanism; each `send` gives the broker's token in return."""
    if login.mechanism == "PLAIN":
        yield f"\0{login.username}\0{login.password}".encode()
        return
    from barnabas.client.scram import HASHES, ScramClient

    nonce = Random().uuid().hex
    scram = ScramClient(HASHES[login.mechanism], login.username, login.password, nonce)
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
    jaas = _JAAS.findall(properties.get("sasl.jaas.config", ""))
    said = {name: _unescaped(value) for name, value in jaas}
    username = said.get("username", properties.get("sasl.username"))
    password = said.get("password", properties.get("sasl.password"))
    if username is None or password is None:
        raise ConfigError('sasl.jaas.config must say username="..." and password="..."')
    return Login(mechanism, username, password)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _tls(properties: Mapping[str, str]) -> "ssl.SSLContext":
    import ssl  # most clusters need none of it

    _check_stores(properties)
    try:
        context = ssl.create_default_context(
            cafile=properties.get("ssl.truststore.location", properties.get("ssl.ca.location")),
            cadata=properties.get("ssl.truststore.certificates"),
        )
        _load_own(context, properties)
    except (OSError, ValueError) as failure:  # ssl.SSLError is an OSError
        raise ConfigError(f"ssl.* name certificates that cannot be read: {failure}") from None
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    context.check_hostname = algorithm not in ("", "none")
    return context


def _load_own(context: "ssl.SSLContext", properties: Mapping[str, str]) -> None:
    # Without one OpenSSL would ask for it on the terminal; a key without password ignores it.
    password = properties.get("ssl.key.password", "")
    chain = properties.get("ssl.keystore.certificate.chain")
    key = properties.get("ssl.keystore.key")
    if chain and key:  # Python reads them from a file only
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{chain}\n{key}\n")
            file.flush()
            context.load_cert_chain(file.name, password=password)
        return
    location = properties.get("ssl.keystore.location", properties.get("ssl.certificate.location"))
    if location:
        context.load_cert_chain(location, properties.get("ssl.key.location"), password)


def _check_stores(properties: Mapping[str, str]) -> None:
    for store in ("truststore", "keystore"):
        location = properties.get(f"ssl.{store}.location", "")
        kind = properties.get(f"ssl.{store}.type", "").upper()
        if kind in ("JKS", "PKCS12") or location.lower().endswith((".jks", ".p12", ".pfx")):
            raise ConfigError(
                f"ssl.{store}.location must be a PEM file, not a Java key store: convert it with"
                f" `{_TO_PEM}`"
            )
