"""SCRAM (RFC 5802): the client's side. Both sides prove that they know the password, unsaid."""

import base64
import binascii
import hashlib
import hmac
from typing import Final

from barnabas.base.randomness import Random
from barnabas.spark.user_errors import SparkFailure

_NO_CHANNEL: Final = "n,,"


class ScramClient:
    """One conversation: `first`, then `proof` of what was answered, then `is_proven_by`."""

    def __init__(self, algorithm: str, username: str, password: str, random: Random) -> None:
        self._algorithm = algorithm
        self._password = password.encode()
        self._nonce = random.uuid().hex
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return (_NO_CHANNEL + self._first).encode()

    def proof(self, challenge: bytes) -> bytes:
        """The answer to the server's challenge. Raises SparkFailure, if that is none."""
        said = _fields(challenge)
        try:
            nonce, iterations = said["r"], int(said["i"])
            salt = base64.b64decode(said["s"])
        except (KeyError, ValueError, binascii.Error):
            raise SparkFailure("the broker's challenge is not one of SCRAM") from None
        if not nonce.startswith(self._nonce):
            raise SparkFailure("the broker answers somebody else's challenge")
        without = f"c={base64.b64encode(_NO_CHANNEL.encode()).decode()},r={nonce}"
        message = ",".join((self._first, challenge.decode(), without)).encode()
        salted = hashlib.pbkdf2_hmac(self._algorithm, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        stored = hashlib.new(self._algorithm, client_key).digest()
        mask = self._hmac(stored, message)
        proof = bytes(a ^ b for a, b in zip(client_key, mask, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{without},p={base64.b64encode(proof).decode()}".encode()

    def is_proven_by(self, final: bytes) -> bool:
        """Whether the server's last word shows that it knows the password too."""
        said = _fields(final).get("v", "")
        return hmac.compare_digest(said.encode(), base64.b64encode(self._signature))

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._algorithm)


def _fields(message: bytes) -> dict[str, str]:
    parts = message.decode("utf-8", "replace").split(",")
    return {name: value for name, _, value in (part.partition("=") for part in parts)}
