"""The security of each listener: its TLS and SASL, made from the properties of a broker."""

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.base.clock import Clock
from barnabas.base.errors import ConfigError
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.listeners import Listener
from barnabas.security.oauth_settings import JwksSource, read_tokens
from barnabas.security.principal_mapping import NotMapped
from barnabas.security.sasl import SaslListener, Tokens, read_sasl_listener
from barnabas.security.scram_credentials import ScramCredentials
from barnabas.security.token_cache import TokenCache
from barnabas.server.network.connection_ports import Authentication, Serve
from barnabas.server.network.sasl_authenticator import (
    SaslAuthenticator,
    SaslPorts,
)

if TYPE_CHECKING:
    from barnabas.security.tls_listener import TlsListener
    from barnabas.server.network.connection import Connection

log = logging.getLogger("barnabas.listeners")


class CertificateAuthentication:
    """Names the principal of a TLS connection by the client's certificate."""

    def __init__(self, tls: "TlsListener") -> None:
        self._tls = tls

    def begin(self, connection: "Connection", transport: asyncio.BaseTransport) -> None:
        """See `connection_ports.Authentication`."""
        certificate = transport.get_extra_info("ssl_object").getpeercert(True)
        try:
            connection.principal = self._tls.principal(certificate)
        except NotMapped as error:
            connection.close_stranger(str(error))

    def end(self) -> None:
        """See `connection_ports.Authentication`."""


class ListenerSecurities:
    """Of all listeners; a listener that neither encrypts nor authenticates has none."""

    def __init__(self, config: BrokerConfig, clock: Clock, random: Random) -> None:
        """Raises ConfigError."""
        self.credentials = ScramCredentials()
        self.tokens = TokenCache(_token_key(config), random)
        self.jwks: list[JwksSource] = []
        self._tls: dict[str, TlsListener] = {}
        self._sasl: dict[str, SaslListener] = {}
        self.handshake_timeout_s = config.long("barnabas.authentication.timeout.ms") / 1000
        self._ports = SaslPorts(
            self.credentials,
            self.tokens,
            clock,
            random,
            config.int("sasl.server.max.receive.size"),
            config.int("socket.request.max.bytes"),
            config.int("connection.failed.authentication.delay.ms") / 1000,
            self.handshake_timeout_s,
        )
        for listener in config.listeners():
            self._add(listener, config)

    def _add(self, listener: Listener, config: BrokerConfig) -> None:
        name, values = listener.name, config.of_listener(listener.name)
        if listener.protocol.endswith("SSL"):
            from barnabas.security.tls_listener import TlsListener  # most brokers have none

            for_brokers = name == config.inter_broker_listener_name()
            self._tls[name] = TlsListener(name, listener.protocol, values, for_brokers)
        if listener.protocol.startswith("SASL"):
            tokens: Tokens | None = None
            if "OAUTHBEARER" in values.text("sasl.enabled.mechanisms").upper():
                tokens, source = read_tokens(name, values)
                if source is not None:
                    self.jwks.append(source)
            self._sasl[name] = read_sasl_listener(name, values, tokens)

    def tls(self, listener: str) -> "TlsListener | None":
        return self._tls.get(listener)

    def mechanisms(self, listener: str) -> tuple[str, ...]:
        sasl = self._sasl.get(listener)
        return () if sasl is None else sasl.mechanisms

    def authentication(self, listener: str, serve: Serve) -> Authentication | None:
        """The authentication of one more connection; `serve` serves it once authenticated."""
        if listener in self._sasl:
            return SaslAuthenticator(self._sasl, listener, self._ports, serve)
        tls = self._tls.get(listener)
        return None if tls is None else CertificateAuthentication(tls)

    def check(self, config: BrokerConfig) -> None:
        """Raises ConfigError, nothing changed, if a listener cannot use these properties."""
        for name, tls in self._tls.items():
            tls.check(config.of_listener(name))
        for name, sasl in self._sasl.items():
            read_sasl_listener(name, config.of_listener(name), sasl.tokens)

    def follow(self, config: BrokerConfig) -> None:
        """Use the properties as they are now, for new connections and for clients that
        authenticate again.
        """
        for name, tls in self._tls.items():
            try:
                tls.follow(config.of_listener(name))
            except ConfigError as error:
                log.warning("TLS not changed listener=%s why=%s", name, error)
        for name, sasl in list(self._sasl.items()):
            try:
                self._sasl[name] = read_sasl_listener(name, config.of_listener(name), sasl.tokens)
            except ConfigError as error:
                log.warning("SASL not changed listener=%s why=%s", name, error)


def _token_key(config: BrokerConfig) -> str:
    """The key of delegation tokens; empty without one."""
    for name in ("delegation.token.secret.key", "delegation.token.master.key"):
        if key := config.optional_str(name):
            return key
    return ""
