"""How a connection proves who is who: TLS, and SASL with a name and a password.

The options are those of Java's client, which Spark's users have; librdkafka's names for the same
things are taken too. Certificates and keys are PEM, the one form that Python reads.
"""

import re
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from barnabas.base.errors import BarnabasError, PeerGone
from barnabas.base.randomness import Random
from barnabas.spark.scram import ScramClient
from barnabas.spark.user_errors import SparkFailure, WrongOption

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_JAAS: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_TO_PEM: Final = "openssl pkcs12 -in STORE -out STORE.pem"

_CLIENT: Final = b"barnabas-spark"
_HEADER = struct.Struct(">ihhih")
_SASL_HANDSHAKE: Final = 17
_SASL_AUTHENTICATE: Final = 36
_VERSION: Final = 1

Exchange = Callable[[bytes], memoryview]


class Refused(BarnabasError):
    """The broker does not take the name or the password."""


class Login(NamedTuple):
    mechanism: str
    username: str
    password: str


def check_security(kafka: Mapping[str, str]) -> None:
    """Raises  WrongOption, for what cannot be meant"""
    _protocol(kafka)
    _login(kafka)
    _tls_context(kafka)


def wrap(raw: socket.socket, host: str, kafka: Mapping[str, str]) -> socket.socket:
    """The socket itself, or TLS over it.

    Raises  SparkFailure, if the two sides do not agree or the broker's certificate is not
            trusted; PeerGone, if the broker went away meanwhile; the socket is closed then
    """
    context = _tls_context(kafka)
    if context is None:
        return raw
    try:
        return context.wrap_socket(raw, server_hostname=host)
    except (ConnectionError, TimeoutError, ssl.SSLEOFError):
        raw.close()
        raise PeerGone(f"{host}: went away before TLS was agreed on") from None
    except OSError as failure:  # ssl.SSLError is one
        raw.close()
        why = getattr(failure, "verify_message", "") or failure.strerror or str(failure)
        raise SparkFailure(
            f"TLS with the broker at {host} fails: {why}; see kafka.security.protocol and"
            " kafka.ssl.truststore.location"
        ) from None


def login(exchange: Exchange, broker: str, kafka: Mapping[str, str]) -> None:
    """Tell name and password, if the options have them; `exchange` asks and gives the answer.

    Raises  SparkFailure, if the broker refuses them
    """
    given = _login(kafka)
    if given is None:
        return
    answer = exchange(_request(_SASL_HANDSHAKE, _string(given.mechanism)))
    (code,) = struct.unpack_from(">h", answer)
    if code:
        raise SparkFailure(
            f"the broker at {broker} does not know kafka.sasl.mechanism {given.mechanism}"
        )
    try:
        _prove(given, lambda token: _authenticate(exchange, token))
    except Refused as refused:
        raise SparkFailure(
            f"the broker at {broker} refuses {given.username}: {refused}; see"
            " kafka.sasl.jaas.config"
        ) from None


def _prove(login: Login, say: Callable[[bytes], bytes]) -> None:
    if login.mechanism == "PLAIN":
        say(f"\0{login.username}\0{login.password}".encode())
        return
    scram = ScramClient(_HASHES[login.mechanism], login.username, login.password, Random())
    final = say(scram.proof(say(scram.first())))
    if not scram.is_proven_by(final):
        raise Refused("it does not know the password itself")


def _authenticate(exchange: Exchange, token: bytes) -> bytes:
    body = struct.pack(">i", len(token)) + token
    answer = exchange(_request(_SASL_AUTHENTICATE, body))
    code, length = struct.unpack_from(">hh", answer)
    position = 4 + max(0, length)
    if code:
        raise Refused(str(answer[4:position], "utf-8", "replace") or f"error {code}")
    (size,) = struct.unpack_from(">i", answer, position)
    return bytes(answer[position + 4 : position + 4 + max(0, size)])


def _request(api: int, body: bytes) -> bytes:
    head = _HEADER.pack(_HEADER.size - 4 + len(_CLIENT) + len(body), api, _VERSION, 1, len(_CLIENT))
    return head + _CLIENT + body


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


# -- options -----------------------------------------------------------------


def _protocol(kafka: Mapping[str, str]) -> str:
    name = kafka.get("security.protocol", "PLAINTEXT").strip().upper()
    if name not in _PROTOCOLS:
        raise WrongOption(
            f"option kafka.security.protocol is {name!r}, must be one of {', '.join(_PROTOCOLS)}"
        )
    return name


def _login(kafka: Mapping[str, str]) -> Login | None:
    if not _protocol(kafka).startswith("SASL"):
        return None
    mechanism = kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms", "")).strip().upper()
    if mechanism != "PLAIN" and mechanism not in _HASHES:
        raise WrongOption(
            f"option kafka.sasl.mechanism is {mechanism!r}, must be one of"
            f" PLAIN, {', '.join(_HASHES)}"
        )
    said = dict(_JAAS.findall(kafka.get("sasl.jaas.config", "")))
    username = said.get("username", kafka.get("sasl.username"))
    password = said.get("password", kafka.get("sasl.password"))
    if username is None or password is None:
        raise WrongOption(
            'option kafka.sasl.jaas.config must say username="..." and password="..."'
        )
    return Login(mechanism, _unescaped(username), _unescaped(password))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _tls_context(kafka: Mapping[str, str]) -> ssl.SSLContext | None:
    if not _protocol(kafka).endswith("SSL"):
        return None
    _check_stores(kafka)
    try:
        context = ssl.create_default_context(
            cafile=kafka.get("ssl.truststore.location", kafka.get("ssl.ca.location")),
            cadata=kafka.get("ssl.truststore.certificates"),
        )
        _load_own(context, kafka)
    except (OSError, ValueError) as failure:  # ssl.SSLError is an OSError
        raise WrongOption(
            f"the certificates that the options kafka.ssl.* name cannot be read: {failure}"
        ) from None
    algorithm = kafka.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    context.check_hostname = algorithm not in ("", "none")
    return context


def _load_own(context: ssl.SSLContext, kafka: Mapping[str, str]) -> None:
    password = kafka.get("ssl.key.password")
    chain, key = kafka.get("ssl.keystore.certificate.chain"), kafka.get("ssl.keystore.key")
    if chain and key:  # Python reads them from a file only
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{chain}\n{key}\n")
            file.flush()
            context.load_cert_chain(file.name, password=password)
        return
    location = kafka.get("ssl.keystore.location", kafka.get("ssl.certificate.location"))
    if location:
        context.load_cert_chain(location, kafka.get("ssl.key.location"), password)


def _check_stores(kafka: Mapping[str, str]) -> None:
    for store in ("truststore", "keystore"):
        location = kafka.get(f"ssl.{store}.location", "")
        kind = kafka.get(f"ssl.{store}.type", "").upper()
        if kind in ("JKS", "PKCS12") or location.lower().endswith((".jks", ".p12", ".pfx")):
            raise WrongOption(
                f"option kafka.ssl.{store}.location must be a file of PEM, not of Java's own kind:"
                f" make one with `{_TO_PEM}`"
            )
