"""The logins of clients: protocol, mechanism and credentials, in the settings of each client."""

import base64
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barnabas.config.jaas import jaas_text

_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_OAUTH_HANDLER: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
)


@dataclass(frozen=True)
class Login:
    """One way into a broker. A `token` is a file; without it the client makes an unsigned one."""

    bootstrap: str
    protocol: str
    mechanism: str = ""
    user: str = ""
    password: str = ""
    authority: Path | None = None
    certificate: Path | None = None
    token: Path | None = None

    @property
    def is_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def bearer_token(self) -> str:
        return self.token.read_text() if self.token is not None else unsigned_token(self.user)


def unsigned_token(user: str) -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now - 1, "exp": now + 3600})
    texts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return ".".join(text.decode() for text in texts) + "."


def librdkafka(login: Login) -> dict[str, str]:
    """The settings that are text: those of kcat, too."""
    found = {"bootstrap.servers": login.bootstrap, "security.protocol": login.protocol.lower()}
    if login.authority is not None:
        found["ssl.ca.location"] = str(login.authority)
        found["ssl.endpoint.identification.algorithm"] = "https"
    if login.certificate is not None:
        found["ssl.certificate.location"] = found["ssl.key.location"] = str(login.certificate)
    if login.mechanism == "OAUTHBEARER" and login.token is None:
        found["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
        found["sasl.oauthbearer.config"] = f"principal={login.user}"
    elif login.is_sasl:
        found |= {"sasl.username": login.user, "sasl.password": login.password}
    return found | ({"sasl.mechanism": login.mechanism} if login.is_sasl else {})


def confluent(login: Login) -> dict[str, Any]:
    """librdkafka's settings with the callback that gives a signed token."""
    settings: dict[str, Any] = {**librdkafka(login), "log_level": 0}
    if login.token is not None:
        settings["oauth_cb"] = lambda _: (login.bearer_token(), time.time() + 3600)
    return settings


def python(login: Login, provider: Callable[[Login], Any]) -> dict[str, Any]:
    """The names that kafka-python and aiokafka share."""
    found: dict[str, Any] = {
        "bootstrap_servers": login.bootstrap,
        "security_protocol": login.protocol,
    }
    if login.authority is not None:
        context = ssl.create_default_context(cafile=str(login.authority))
        if login.certificate is not None:
            context.load_cert_chain(str(login.certificate))
        found["ssl_context"] = context
    if login.is_sasl:
        found["sasl_mechanism"] = login.mechanism
    if login.mechanism == "OAUTHBEARER":
        found["sasl_oauth_token_provider"] = provider(login)
    elif login.is_sasl:
        found |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    return found


def java(login: Login) -> dict[str, str]:
    """The properties of the Java client."""
    found = {"bootstrap.servers": login.bootstrap, "security.protocol": login.protocol}
    if login.authority is not None:
        found["ssl.truststore.location"] = str(login.authority)
        found["ssl.truststore.type"] = "PEM"
    if login.certificate is not None:
        found["ssl.keystore.location"] = str(login.certificate)
        found["ssl.keystore.type"] = "PEM"
    if not login.is_sasl:
        return found
    found["sasl.mechanism"] = login.mechanism
    options = {"username": login.user, "password": login.password}
    if login.mechanism == "OAUTHBEARER":
        options = {"unsecuredLoginStringClaim_sub": login.user}
    if login.token is not None:
        options = {}
        found["sasl.login.callback.handler.class"] = _OAUTH_HANDLER
        found["sasl.oauthbearer.token.endpoint.url"] = login.token.as_uri()
    found["sasl.jaas.config"] = jaas_text(_MODULES[login.mechanism], options)
    return found
