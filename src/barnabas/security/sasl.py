"""The server's side of a SASL mechanism, and the mechanisms that one listener offers.

A conversation gets the client's tokens one after another and returns ours, until `identity` is
set or it fails. It knows nothing of frames and connections.
"""

import hmac
import logging
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from barnabas.base.errors import BarnabasError, ConfigError
from barnabas.base.randomness import Random
from barnabas.client.scram import HASHES
from barnabas.config.jaas import jaas_options
from barnabas.config.listener_values import ListenerValues
from barnabas.security.scram_credentials import ScramCredentials
from barnabas.security.token_cache import TokenCache

log = logging.getLogger("barnabas.sasl")

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_JAAS: Final = "sasl.jaas.config"
_USER: Final = "user_"


class SaslFailed(BarnabasError):
    """The client is not authenticated; the message is for the client and reveals no user.

    `detail` is for the broker's log.
    """

    def __init__(self, message: str | None = None, detail: str = "") -> None:
        super().__init__(detail or message or "invalid credentials")
        self.message = message


class Identity(NamedTuple):
    """The result of a conversation: the name of the principal, and when it expires."""

    name: str
    expires_ms: int | None = None
    is_token: bool = False


class Conversation(Protocol):
    """One client's authentication by one mechanism."""

    identity: Identity | None

    def respond(self, token: bytes, now_ms: int) -> bytes:
        """Our next token. Raises SaslFailed."""
        ...


class Tokens(Protocol):
    """Checks bearer tokens; see `oauth_tokens`."""

    def validate(self, token: str, now_ms: int) -> Identity: ...


class Plain:
    """PLAIN (RFC 4616): authorization id, user and password, separated by NUL."""

    def __init__(self, passwords: dict[str, str]) -> None:
        self._passwords = passwords
        self.identity: Identity | None = None

    def respond(self, token: bytes, now_ms: int) -> bytes:
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslFailed("Invalid SASL/PLAIN response: expected UTF-8") from None
        if len(parts) != 3:
            raise SaslFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization, user, password = parts
        if not user:
            raise SaslFailed("Authentication failed: username not specified")
        if not password:
            raise SaslFailed("Authentication failed: password not specified")
        known = self._passwords.get(user)
        is_right = hmac.compare_digest((known or "").encode(), password.encode())
        if known is None or not is_right:
            raise SaslFailed("Authentication failed: Invalid username or password", f"user={user}")
        if authorization not in ("", user):
            raise SaslFailed(
                "Authentication failed: Client requested an authorization id that is different from"
                " username"
            )
        self.identity = Identity(user)
        return b""


@dataclass(slots=True)
class SaslListener:
    """The mechanisms that one listener offers."""

    mechanisms: tuple[str, ...]
    passwords: dict[str, str] = field(default_factory=dict, repr=False)
    tokens: Tokens | None = None
    max_reauth_ms: dict[str, int] = field(default_factory=dict)

    def begin(
        self,
        mechanism: str,
        credentials: ScramCredentials,
        delegation_tokens: TokenCache,
        random: Random,
    ) -> Conversation:
        """A conversation by one of `mechanisms`."""
        if mechanism == "PLAIN":
            return Plain(self.passwords)
        if mechanism == "OAUTHBEARER":
            from barnabas.security.oauthbearer import OauthBearer

            assert self.tokens is not None
            return OauthBearer(self.tokens)
        from barnabas.security.scram_server import ScramServer

        return ScramServer(mechanism, HASHES[mechanism], credentials, delegation_tokens, random)


def read_sasl_listener(name: str, values: ListenerValues, tokens: Tokens | None) -> SaslListener:
    """Raises ConfigError, which names the property and the listener."""
    enabled = [item.strip().upper() for item in values.text("sasl.enabled.mechanisms").split(",")]
    mechanisms = tuple(dict.fromkeys(item for item in enabled if item))
    for mechanism in mechanisms or ("",):
        if mechanism not in MECHANISMS:
            raise ConfigError(
                f"sasl.enabled.mechanisms: listener {name} has {mechanism or 'no mechanism'}; must"
                f" be among {', '.join(MECHANISMS)} (Kerberos is not supported)"
            )
    reauth = {
        each: int(values.of_mechanism(each, "connections.max.reauth.ms") or 0)
        for each in mechanisms
    }
    passwords = _passwords(name, values) if "PLAIN" in mechanisms else {}
    return SaslListener(mechanisms, passwords, tokens, reauth)


def server_options(values: ListenerValues, mechanism: str) -> dict[str, str]:
    """The options of the mechanism's login module; empty without one. Raises ConfigError."""
    text = values.of_mechanism(mechanism, _JAAS)
    return jaas_options(text, f"{mechanism.lower()}.{_JAAS}") if text else {}


def _passwords(name: str, values: ListenerValues) -> dict[str, str]:
    options = server_options(values, "PLAIN")
    found = {
        key.removeprefix(_USER): each for key, each in options.items() if key.startswith(_USER)
    }
    if not found:
        log.warning(
            "PLAIN has no user listener=%s: listener.name.%s.plain.%s has no user_NAME",
            name,
            name.lower(),
            _JAAS,
        )
    return found
