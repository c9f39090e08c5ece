"""OAUTHBEARER of a client: the token, and the first message of the mechanism (RFC 7628).

The token is one that nobody signed, made of claims in the JAAS options (for tests), or one that
the endpoint at `sasl.oauthbearer.token.endpoint.url` grants, or the content of a file.
"""

import base64
import json
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from barnabas.base.clock import SystemClock
from barnabas.base.errors import BarnabasError, ConfigError
from barnabas.client.frames import MalformedResponse

_STRING_CLAIM: Final = "unsecuredLoginStringClaim_"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
_EXTENSION: Final = "extension_"
_SEPARATOR: Final = "\x01"
_MOST_OF_A_RESPONSE: Final = 64 * 1024


class TokenNotGranted(BarnabasError):
    """The identity provider does not grant a token."""


@dataclass(frozen=True, slots=True)
class OauthLogin:
    """Where the tokens of one client come from."""

    claims: Mapping[str, str] = field(default_factory=dict)
    lifetime_s: int = 3600
    url: str | None = None
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    timeout_s: float = 10.0
    extensions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, properties: Mapping[str, str], options: Mapping[str, str]) -> "OauthLogin":
        """Raises ConfigError, if no token can be made of the properties."""
        url = properties.get("sasl.oauthbearer.token.endpoint.url")
        extensions = {
            name.removeprefix(_EXTENSION): value
            for name, value in options.items()
            if name.startswith(_EXTENSION)
        }
        if url:
            if not url.startswith(("https://", "http://", "file:")):
                raise ConfigError(
                    "sasl.oauthbearer.token.endpoint.url must be an https or file URL"
                )
            return cls(
                url=url,
                client_id=options.get("clientId", properties.get("sasl.oauthbearer.client.id", "")),
                client_secret=options.get(
                    "clientSecret", properties.get("sasl.oauthbearer.client.secret", "")
                ),
                scope=options.get("scope", properties.get("sasl.oauthbearer.scope", "")),
                extensions=extensions,
            )
        claims = {
            name.removeprefix(_STRING_CLAIM): value
            for name, value in options.items()
            if name.startswith(_STRING_CLAIM)
        }
        if not claims:
            raise ConfigError(
                "sasl.oauthbearer.token.endpoint.url must say where tokens come from, or"
                f' sasl.jaas.config {_STRING_CLAIM}sub="..." for one that nobody signs'
            )
        return cls(claims, int(options.get(_LIFETIME, "3600")), extensions=extensions)

    def first_message(self) -> bytes:
        """Raises TokenNotGranted. May wait for the network."""
        pairs = [f"auth=Bearer {self.token()}"]
        pairs += [f"{name}={value}" for name, value in self.extensions.items()]
        return f"n,,{_SEPARATOR}{''.join(pair + _SEPARATOR for pair in pairs)}{_SEPARATOR}".encode()

    def token(self) -> str:
        if self.url is None:
            return self._unsecured()
        if self.url.startswith("file:"):
            try:
                return Path(urllib.parse.urlsplit(self.url).path).read_text().strip()
            except OSError as failure:
                raise TokenNotGranted(f"{self.url}: {failure.strerror}") from None
        return self._granted(self.url)

    def _unsecured(self) -> str:
        now_s = SystemClock().now_ms() / 1000
        claims: dict[str, Any] = {"iat": now_s, "exp": now_s + self.lifetime_s, **self.claims}
        parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
        encoded = (base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
        return f"{'.'.join(encoded)}."

    def _granted(self, url: str) -> str:
        """The token of the client credentials grant (RFC 6749, 4.4)."""
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        secret = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        request = urllib.request.Request(
            url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {secret}", "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as response:
                token = json.loads(response.read(_MOST_OF_A_RESPONSE))["access_token"]
        except (OSError, ValueError, KeyError, TypeError) as failure:
            raise TokenNotGranted(f"{url} grants no token: {failure}") from None
        if not isinstance(token, str):
            raise MalformedResponse(f"{url} grants a token that is not text")
        return token
