"""SCRAM of the server: see `barnabas.client.scram` for the messages.

A client that names no user of ours gets a challenge as any other, with a salt that stays the same
as long as this process lives, and fails with its proof: it does not learn that the user is missing.
"""

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

from barnabas.base.randomness import Random
from barnabas.client.scram import (
    ScramFailed,
    attributes,
    auth_message,
    masked,
    server_signature,
    stored_key,
    unescaped,
)
from barnabas.security.sasl import Identity, SaslFailed
from barnabas.security.scram_credentials import LEAST_ITERATIONS, ScramCredential, ScramCredentials
from barnabas.security.token_cache import TokenCache

_SALTS_OF_NOBODY: Final = Random().uuid().bytes
_CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,]*))?,(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[!-+\--~]+)"
    r"(?P<extensions>(?:,[A-Za-z]+=[^,\0]*)*))"
)


class ScramServer:
    """One conversation: two messages of the client, and two of ours."""

    def __init__(
        self,
        mechanism: str,
        algorithm: str,
        credentials: ScramCredentials,
        tokens: TokenCache,
        random: Random,
    ) -> None:
        self._mechanism = mechanism
        self._algorithm = algorithm
        self._credentials = credentials
        self._tokens = tokens
        self._random = random
        self._user = ""
        self._is_known = False
        self._is_token = False
        self._credential: ScramCredential | None = None
        self._client_nonce = ""
        self._nonce = ""
        self._client_first = ""
        self._server_first = ""
        self.identity: Identity | None = None

    def respond(self, token: bytes, now_ms: int) -> bytes:
        try:
            if self._credential is None:
                return self._first(token, now_ms)
            return self._final(token)
        except (ScramFailed, UnicodeDecodeError, ValueError, binascii.Error) as failure:
            raise SaslFailed(None, f"user={self._user} why={failure}") from None

    def _first(self, token: bytes, now_ms: int) -> bytes:
        match = _CLIENT_FIRST.fullmatch(token.decode())
        if match is None:
            raise ScramFailed("the first message is not one of SCRAM")
        self._user = unescaped(match["user"])
        if match["authzid"] and unescaped(match["authzid"]) != self._user:
            raise SaslFailed(
                "Authentication failed: Client requested an authorization id that is different from"
                " username"
            )
        self._is_token = ",tokenauth=true" in (match["extensions"] or "").lower()
        self._client_first = match["bare"]
        found = self._find(now_ms)
        self._is_known = found is not None
        self._credential = credential = found or self._of_nobody()
        self._client_nonce = match["nonce"]
        self._nonce = self._client_nonce + self._random.uuid().hex
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def _find(self, now_ms: int) -> ScramCredential | None:
        if self._is_token:
            return self._tokens.credential(self._mechanism, self._user, now_ms)
        return self._credentials.get(self._mechanism, self._user)

    def _of_nobody(self) -> ScramCredential:
        salt = hmac.digest(_SALTS_OF_NOBODY, self._user.encode(), "sha256")[:20]
        size = hashlib.new(self._algorithm).digest_size
        return ScramCredential(salt, bytes(size), bytes(size), LEAST_ITERATIONS)

    def _final(self, token: bytes) -> bytes:
        assert self._credential is not None
        without_proof, comma, _ = token.decode().rpartition(",p=")
        said = attributes(token)
        if not comma or said.get("c") != "biws":
            raise ScramFailed("the last message is not one of SCRAM")
        # All of it: a client that repeats only its own part could replay (CVE-2024-56128). Older
        # librdkafka, as in kcat, repeats its own part before all of it.
        nonce = said.get("r", "")
        if nonce not in (self._nonce, self._client_nonce + self._nonce):
            raise ScramFailed("the last message has another nonce")
        proof = base64.b64decode(token.decode().rpartition(",p=")[2], validate=True)
        message = auth_message(self._client_first, self._server_first, without_proof)
        stored, server = self._credential.stored_key, self._credential.server_key
        key = masked(self._algorithm, proof, stored, message)
        is_right = hmac.compare_digest(stored_key(self._algorithm, key), stored)
        if not is_right or not self._is_known:
            raise ScramFailed("the password is not right")
        self.identity = self._proved()
        signature = server_signature(self._algorithm, server, message)
        return f"v={base64.b64encode(signature).decode()}".encode()

    def _proved(self) -> Identity:
        if not self._is_token:
            return Identity(self._user)
        token = self._tokens.get(self._user)
        if token is None:
            raise ScramFailed("the token was removed meanwhile")
        return Identity(token.owner.partition(":")[2], token.expires_ms, is_token=True)
