"""Bearer tokens: signed ones, checked with the keys of an issuer, and unsigned ones, for tests."""

import base64
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from barnabas.base.errors import ConfigError
from barnabas.security.sasl import Identity, SaslFailed

log = logging.getLogger("barnabas.sasl")

# Only signatures that a public key verifies: never `none`, and no secret that is shared.
ALGORITHMS: Final = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
]
_MOST_OF_A_KEY_ID: Final = 1000
_MOST_MISSING: Final = 16
MISSING_AGAIN_AFTER_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The claims that a token must have."""

    subject_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: frozenset[str] = frozenset()
    issuer: str | None = None
    audiences: frozenset[str] = frozenset()
    skew_ms: int = 30_000

    def identity(self, claims: Mapping[str, Any], now_ms: int) -> Identity:
        """Raises SaslFailed, whose message names no claim's value."""
        expires_ms = _time_ms(claims, "exp")
        issued_ms = _time_ms(claims, "iat")
        if expires_ms + self.skew_ms <= now_ms:
            raise SaslFailed("invalid_token", "the token has expired")
        if issued_ms - self.skew_ms > now_ms or expires_ms <= issued_ms:
            raise SaslFailed("invalid_token", "the token is issued in the future")
        if "nbf" in claims and _time_ms(claims, "nbf") - self.skew_ms > now_ms:
            raise SaslFailed("invalid_token", "the token is not valid yet")
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise SaslFailed("invalid_token", "the token has another issuer")
        if self.audiences and not self.audiences & set(_texts(claims.get("aud"))):
            raise SaslFailed("invalid_token", "the token has another audience")
        if not self.required_scope <= set(_texts(claims.get(self.scope_claim), split=True)):
            raise SaslFailed("insufficient_scope", "the token lacks a scope")
        subject = claims.get(self.subject_claim)
        if not isinstance(subject, str) or not subject.strip():
            raise SaslFailed("invalid_token", f"the token has no claim {self.subject_claim}")
        return Identity(subject.strip(), int(expires_ms))


def _time_ms(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise SaslFailed("invalid_token", f"the token has no time {name}")
    return value * 1000


def _texts(value: object, split: bool = False) -> list[str]:
    if isinstance(value, str):
        return value.split() if split else [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


class SignedTokens:
    """Checks tokens with a key set that is replaced from time to time."""

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules
        self._keys = KeySet([])
        self._missing: dict[str, int] = {}
        self.wants_refresh = False  # a token names a key that is not known

    def use(self, text: str) -> None:
        """Use the keys of a JWKS document. Raises ConfigError, nothing changed."""
        try:
            document = json.loads(text)
            if not isinstance(document, dict) or not document.get("keys"):
                raise ValueError("it has no keys")
            self._keys = KeySet.import_key_set(cast(Any, document))
        except (ValueError, KeyError, TypeError, JoseError) as error:
            raise ConfigError(f"the JWKS document cannot be used: {error}") from None
        self.wants_refresh = False

    def validate(self, token: str, now_ms: int) -> Identity:
        """Raises SaslFailed."""
        try:
            decoded = jwt.decode(token, self._keys, algorithms=ALGORITHMS)
        except (
            JoseError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            self._note_missing(token, now_ms)
            raise SaslFailed("invalid_token", f"the token is not accepted: {error}") from None
        return self._rules.identity(decoded.claims, now_ms)

    def _note_missing(self, token: str, now_ms: int) -> None:
        """A key that is not known yet is looked for once a minute; only some are remembered."""
        key_id = _header(token).get("kid")
        if not isinstance(key_id, str) or len(key_id) > _MOST_OF_A_KEY_ID:
            return
        if any(key.kid == key_id for key in self._keys.keys):
            return
        last = self._missing.pop(key_id, None)
        if last is None or now_ms - last >= MISSING_AGAIN_AFTER_MS:
            last = now_ms
            self.wants_refresh = True
        self._missing[key_id] = last
        while len(self._missing) > _MOST_MISSING:
            del self._missing[next(iter(self._missing))]


class UnsignedTokens:
    """Accepts tokens that nobody signed: for tests and development, as Kafka does by default."""

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules

    def validate(self, token: str, now_ms: int) -> Identity:
        parts = token.split(".")
        if len(parts) != 3 or parts[2] or _header(token).get("alg") != "none":
            raise SaslFailed("invalid_token", "the token is not an unsecured one")
        return self._rules.identity(_json(parts[1]), now_ms)


def _header(token: str) -> dict[str, Any]:
    return _json(token.partition(".")[0])


def _json(part: str) -> dict[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):  # the latter for arrays in arrays, without end
        return {}
    return value if isinstance(value, dict) else {}
