"""OAUTHBEARER of the server (RFC 7628): one message with a token, and failures as JSON."""

import json
import re
from typing import Final

from barnabas.security.sasl import Identity, SaslFailed, Tokens

_SEPARATOR: Final = "\x01"
_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x01\0]*\x01)+)\x01"
)
_AUTH: Final = re.compile(r"(?i:bearer)\s+(?P<token>[-_\.+/A-Za-z0-9]+=*)\s*")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
_INVALID_TOKEN: Final = "invalid_token"


class OauthBearer:
    """One conversation. After a failure the client confirms it with one byte."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._failure: str | None = None
        self.identity: Identity | None = None

    def respond(self, token: bytes, now_ms: int) -> bytes:
        if self._failure is not None:
            raise SaslFailed(self._failure)
        bearer, authorization = _read(token)
        try:
            identity = self._tokens.validate(bearer, now_ms)
        except SaslFailed as failure:
            status = json.dumps({"status": failure.message or _INVALID_TOKEN})
            self._failure = status
            return status.encode()
        if authorization not in ("", identity.name):
            raise SaslFailed(
                "Authentication failed: Client requested an authorization id"
                f" ({authorization}) that is different from the token's principal name"
                f" ({identity.name})"
            )
        self.identity = identity
        return b""


def _read(message: bytes) -> tuple[str, str]:
    """The token and the authorization id. Raises SaslFailed."""
    try:
        match = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise SaslFailed("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.partition("=")[::2] for pair in match["pairs"].split(_SEPARATOR) if pair)
    auth = _AUTH.fullmatch(pairs.pop("auth", ""))
    if auth is None:
        raise SaslFailed("Invalid OAUTHBEARER client first message: 'auth' not specified")
    for name, value in pairs.items():
        if not _EXTENSION_VALUE.fullmatch(value):
            raise SaslFailed(f"Invalid OAUTHBEARER extension {name}")
    return auth["token"], match["authzid"] or ""
