"""The checks of bearer tokens on one listener, from its properties; and where its keys are."""

import logging
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.base.errors import ConfigError
from barnabas.config.listener_values import ListenerValues
from barnabas.security.sasl import Tokens, server_options

if TYPE_CHECKING:
    from barnabas.security.oauth_tokens import SignedTokens, TokenRules

log = logging.getLogger("barnabas.sasl")

_P: Final = "sasl.oauthbearer."
ALLOWED_URLS: Final = "barnabas.sasl.oauthbearer.allowed.urls"


@dataclass(frozen=True, slots=True)
class JwksSource:
    """Where the keys of a listener are read from, and how often."""

    url: str
    refresh_s: float
    backoff_s: float
    backoff_max_s: float
    tokens: "SignedTokens"
    tls: dict[str, str] = field(default_factory=dict, repr=False)


def read_tokens(listener: str, values: ListenerValues) -> tuple[Tokens, JwksSource | None]:
    """Raises ConfigError."""
    from barnabas.security.oauth_tokens import SignedTokens, UnsignedTokens

    options = server_options(values, "OAUTHBEARER")

    def value(key: str) -> str:
        return values.of_mechanism("OAUTHBEARER", _P + key) or ""

    url = value("jwks.endpoint.url")
    if not url:
        handler = values.of_mechanism("OAUTHBEARER", "sasl.server.callback.handler.class") or ""
        if handler and "Unsecured" not in handler:
            raise ConfigError(f"{_P}jwks.endpoint.url must say where the keys of tokens are")
        log.warning(
            "OAUTHBEARER accepts tokens that nobody signed listener=%s: set"
            " sasl.oauthbearer.jwks.endpoint.url",
            listener,
        )
        return UnsignedTokens(_unsecured_rules(options)), None
    check_url(url, values.text(ALLOWED_URLS))
    tokens = SignedTokens(_rules(value))
    tls = {key: each for key, each in options.items() if key.startswith("ssl.")}
    return tokens, JwksSource(
        url,
        int(value("jwks.endpoint.refresh.ms")) / 1000,
        int(value("jwks.endpoint.retry.backoff.ms")) / 1000,
        int(value("jwks.endpoint.retry.backoff.max.ms")) / 1000,
        tokens,
        tls,
    )


def check_url(url: str, allowed: str) -> None:
    """Raises ConfigError, unless the operator allows exactly this URL (CVE-2025-27817)."""
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in ("https", "file"):
        raise ConfigError(f"{_P}jwks.endpoint.url must be an https or file URL, not {scheme}")
    if url not in [each.strip() for each in allowed.split(",")]:
        raise ConfigError(f"{_P}jwks.endpoint.url: {url} is not among {ALLOWED_URLS}")


def _rules(value: Callable[[str], str]) -> "TokenRules":
    from barnabas.security.oauth_tokens import TokenRules

    audiences = (item.strip() for item in value("expected.audience").split(","))
    return TokenRules(
        subject_claim=value("sub.claim.name"),
        scope_claim=value("scope.claim.name"),
        issuer=value("expected.issuer") or None,
        audiences=frozenset(item for item in audiences if item),
        skew_ms=1000 * int(value("clock.skew.seconds")),
    )


def _unsecured_rules(options: dict[str, str]) -> "TokenRules":
    from barnabas.security.oauth_tokens import TokenRules

    prefix = "unsecuredValidator"
    return TokenRules(
        subject_claim=options.get(f"{prefix}PrincipalClaimName", "sub"),
        scope_claim=options.get(f"{prefix}ScopeClaimName", "scope"),
        required_scope=frozenset(options.get(f"{prefix}RequiredScope", "").split()),
        skew_ms=int(options.get(f"{prefix}AllowableClockSkewMs", "0")),
    )
