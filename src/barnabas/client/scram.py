"""SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password and never send it.

    client -> server   client-first   n,,n=USER,r=NONCE
    server -> client   server-first   r=NONCE+MORE,s=SALT,i=ITERATIONS
    client -> server   client-final   c=biws,r=NONCE+MORE,p=PROOF
    server -> client   server-final   v=SIGNATURE

A server keeps salt, iterations, stored key and server key of a user. The functions below compute
all that either side needs; `ScramClient` is the client's side of the conversation.
"""

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

from barnabas.base.errors import BarnabasError

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS: Final = 4096  # of both mechanisms; Kafka's client refuses fewer
# About a second of work: a server that has not proved anything yet must not ask for more.
MOST_ITERATIONS: Final = 1_000_000
_NO_CHANNEL_BINDING: Final = "n,,"


class ScramFailed(BarnabasError):
    """The other side does not speak SCRAM, or does not know the password."""


def salted_password(algorithm: str, password: str, salt: bytes, iterations: int) -> bytes:
    """The secret from which all keys are derived. As in Kafka, the password is not normalized."""
    return hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)


def client_key(algorithm: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", algorithm)


def server_key(algorithm: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", algorithm)


def stored_key(algorithm: str, key: bytes) -> bytes:
    """The hash of the client key, which a server stores."""
    return hashlib.new(algorithm, key).digest()


def masked(algorithm: str, key: bytes, stored: bytes, auth_message: bytes) -> bytes:
    """The proof of a client key; of a proof, the client key it was made of."""
    signature = hmac.digest(stored, auth_message, algorithm)
    return bytes(a ^ b for a, b in zip(key, signature, strict=True))


def server_signature(algorithm: str, key: bytes, auth_message: bytes) -> bytes:
    return hmac.digest(key, auth_message, algorithm)


def auth_message(client_first: str, server_first: str, client_final: str) -> bytes:
    """The text that both sides sign: first messages without channel binding, last without proof."""
    return f"{client_first},{server_first},{client_final}".encode()


def attributes(message: bytes) -> dict[str, str]:
    """The attributes of a message by their letters. Raises ScramFailed, if it is not text."""
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise ScramFailed("a message of SCRAM is not text") from None
    return {name: value for name, _, value in (part.partition("=") for part in parts)}


def escaped(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def unescaped(saslname: str) -> str:
    """Raises ScramFailed for an equals sign that escapes nothing."""
    if re.search("=(?!2C|3D)", saslname):
        raise ScramFailed("the user name has an equals sign that is not escaped")
    return saslname.replace("=2C", ",").replace("=3D", "=")


class ScramClient:
    """One conversation: `first`, `final`, `verify`."""

    def __init__(
        self, algorithm: str, username: str, password: str, nonce: str, is_token: bool = False
    ) -> None:
        """With `is_token` the user is the id of a delegation token."""
        self._algorithm = algorithm
        self._password = password
        self._nonce = nonce
        self._first = f"n={escaped(username)},r={nonce}{',tokenauth=true' if is_token else ''}"
        self._signature = b""

    def first(self) -> bytes:
        return (_NO_CHANNEL_BINDING + self._first).encode()

    def final(self, server_first: bytes) -> bytes:
        """The client's proof. Raises ScramFailed, if no password may be proved to this server."""
        nonce, salt, iterations = self._challenge(server_first)
        binding = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        message = auth_message(self._first, server_first.decode(), without_proof)
        salted = salted_password(self._algorithm, self._password, salt, iterations)
        key = client_key(self._algorithm, salted)
        proof = masked(self._algorithm, key, stored_key(self._algorithm, key), message)
        self._signature = server_signature(
            self._algorithm, server_key(self._algorithm, salted), message
        )
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _challenge(self, server_first: bytes) -> tuple[str, bytes, int]:
        said = attributes(server_first)
        try:
            nonce, iterations = said["r"], int(said["i"])
            salt = base64.b64decode(said["s"], validate=True)
        except (KeyError, ValueError, binascii.Error):
            raise ScramFailed("its challenge is not one of SCRAM") from None
        if not nonce.startswith(self._nonce):
            raise ScramFailed("it answers the challenge of another client")
        if iterations < LEAST_ITERATIONS:
            raise ScramFailed(f"it asks for {iterations} iterations, fewer than {LEAST_ITERATIONS}")
        if iterations > MOST_ITERATIONS:
            raise ScramFailed(f"it asks for {iterations} iterations, more than {MOST_ITERATIONS}")
        return nonce, salt, iterations

    def verify(self, server_final: bytes) -> None:
        """Raises  ScramFailed, if the server refuses, or does not know the password itself"""
        said = attributes(server_final)
        if "e" in said:
            raise ScramFailed(said["e"])
        expected = base64.b64encode(self._signature)
        if not self._signature or not hmac.compare_digest(said.get("v", "").encode(), expected):
            raise ScramFailed("it does not know the password itself")
