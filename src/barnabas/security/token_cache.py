"""The delegation tokens that a broker knows, with the secrets derived from its key.

The HMAC of a token's id is the token's password, in base64, of SCRAM.
"""

import base64
import hmac
from collections.abc import Iterator
from typing import Final

from barnabas.base.randomness import Random
from barnabas.client.scram import HASHES, salted_password
from barnabas.security.scram_credentials import LEAST_ITERATIONS, ScramCredential, credential_of
from barnabas.znodes.token_layout import DelegationToken

_SALT_BYTES: Final = 16


class TokenCache:
    """Kafka's DelegationTokenCache: tokens by id and by HMAC. Without a key there are none."""

    def __init__(self, key: str, random: Random) -> None:
        self._key = key.encode()
        self._random = random
        self._by_id: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}  # by HMAC
        # Derived when a client first needs one: each takes milliseconds.
        self._credentials: dict[tuple[str, str], ScramCredential] = {}

    def __iter__(self) -> Iterator[DelegationToken]:
        return iter(list(self._by_id.values()))

    @property
    def is_enabled(self) -> bool:
        return bool(self._key)

    def hmac(self, token_id: str) -> bytes:
        return hmac.digest(self._key, token_id.encode(), "sha512")

    def get(self, token_id: str) -> DelegationToken | None:
        return self._by_id.get(token_id)

    def of_hmac(self, secret: bytes) -> DelegationToken | None:
        token_id = self._ids.get(secret)
        return None if token_id is None else self._by_id[token_id]

    def put(self, token: DelegationToken) -> None:
        self._by_id[token.token_id] = token
        self._ids[self.hmac(token.token_id)] = token.token_id

    def remove(self, token_id: str) -> None:
        if self._by_id.pop(token_id, None) is not None:
            del self._ids[self.hmac(token_id)]
            for mechanism in HASHES:
                self._credentials.pop((mechanism, token_id), None)

    def credential(self, mechanism: str, token_id: str, now_ms: int) -> ScramCredential | None:
        """The SCRAM credential of a token; None if it is unknown or has expired."""
        token = self._by_id.get(token_id)
        if token is None or token.is_expired(now_ms):
            return None
        found = self._credentials.get((mechanism, token_id))
        if found is None:
            found = self._derived(mechanism, token_id)
            self._credentials[mechanism, token_id] = found
        return found

    def _derived(self, mechanism: str, token_id: str) -> ScramCredential:
        password = base64.b64encode(self.hmac(token_id)).decode()
        salt = self._random.uuid().bytes[:_SALT_BYTES]
        salted = salted_password(HASHES[mechanism], password, salt, LEAST_ITERATIONS)
        return credential_of(mechanism, salted, salt, LEAST_ITERATIONS)
