"""The TLS of one listener: its context, its reload, and the principal of a client's certificate.

A reload replaces the context for new connections; those that are open keep theirs. The files of
the stores are looked at when a connection comes, at most once a second.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Mapping
from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.base.flood_log import FloodLog
from barnabas.client.key_stores import read_key_store, read_trust_store, store_files
from barnabas.client.tls import server_context
from barnabas.client.tls_alerts import AlertingObject
from barnabas.config.listener_values import ListenerValues
from barnabas.security.certificates import check_trusted, names_of
from barnabas.security.distinguished_name import subject_of
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.principal_mapping import PrincipalMapping

log = logging.getLogger("barnabas.tls")

FILES_CHECKED_EVERY_S: Final = 1.0


class TlsListener:
    """`context` is what a new connection uses."""

    def __init__(self, name: str, protocol: str, values: ListenerValues, for_brokers: bool) -> None:
        """Raises ConfigError, which names the listener."""
        self._name = name
        self._protocol = protocol
        self._for_brokers = for_brokers
        self._properties = values.all("ssl.")
        self._client_auth = _client_auth(protocol, values)
        self._mapping = PrincipalMapping(values.text("ssl.principal.mapping.rules"))
        reporting = {"on_failure": staticmethod(self._on_failure)}
        self._object_class = type("ReportingObject", (AlertingObject,), reporting)
        self._floods = FloodLog()
        self._context = self._made(self._properties, self._client_auth)
        self._stamps = _stamps(self._properties)
        self._checked_at = 0.0

    def context(self, now_s: float) -> ssl.SSLContext:
        """The context of a connection that comes now."""
        if now_s - self._checked_at >= FILES_CHECKED_EVERY_S:
            self._checked_at = now_s
            if _stamps(self._properties) != self._stamps:
                self._reload()
        return self._context

    def check(self, values: ListenerValues) -> None:
        """Raises ConfigError, nothing changed, if the listener cannot use these values."""
        self._prepare(values)

    def follow(self, values: ListenerValues) -> None:
        """Use these values for new connections. Raises ConfigError, nothing changed."""
        properties, client_auth, context = self._prepare(values)
        if properties != self._properties or client_auth != self._client_auth:
            log.info("TLS reloaded listener=%s", self._name)
        self._properties, self._client_auth, self._context = properties, client_auth, context
        self._stamps = _stamps(properties)

    def principal(self, certificate: bytes | None) -> Principal:
        """The principal of a client's certificate, in DER. Raises NotMapped."""
        if certificate is None:
            return ANONYMOUS
        return Principal(self._mapping.name_of(subject_of(certificate)))

    def _prepare(self, values: ListenerValues) -> tuple[dict[str, str], str, ssl.SSLContext]:
        properties, client_auth = values.all("ssl."), _client_auth(self._protocol, values)
        context = self._made(properties, client_auth)
        self._check_replacement(properties, values)
        return properties, client_auth, context

    def _made(self, properties: Mapping[str, str], client_auth: str) -> ssl.SSLContext:
        try:
            context = server_context(properties, client_auth)
            context.sslobject_class = self._object_class
            if self._for_brokers:
                check_trusted(read_key_store(properties), read_trust_store(properties))
        except ConfigError as error:
            raise ConfigError(f"listener {self._name}: {error}") from None
        return context

    def _check_replacement(self, properties: Mapping[str, str], values: ListenerValues) -> None:
        """As in Kafka, a running listener neither gets nor loses a store, nor changes its name."""
        if (read_trust_store(self._properties) is None) != (read_trust_store(properties) is None):
            raise ConfigError("Cannot add or remove the truststore of a running listener")
        old, new = read_key_store(self._properties), read_key_store(properties)
        if old is None or new is None:
            raise ConfigError("Cannot add or remove the keystore of a running listener")
        if self._stamps != _stamps(self._properties):
            return  # the old file is gone: there is nothing to compare with
        was, is_now = names_of(old.chain), names_of(new.chain)
        if was.subject != is_now.subject and values.text("ssl.allow.dn.changes") != "true":
            raise ConfigError(
                f"Keystore DistinguishedName does not match: existing={was.subject}"
                f" new={is_now.subject}"
            )
        lost = sorted(set(was.alternatives) - set(is_now.alternatives))
        if lost and values.text("ssl.allow.san.changes") != "true":
            raise ConfigError(f"Keystore SubjectAltNames do not match: missing {', '.join(lost)}")

    def _on_failure(self, reason: str) -> None:
        """Report why a client is refused; what follows only says that it is gone."""
        now, name = asyncio.get_running_loop().time(), self._name
        self._floods.info(reason, now, "TLS handshake failed listener=%s why=%s", name, reason)

    def _reload(self) -> None:
        """Use the files as they are now; those before stay in use if these cannot be used."""
        self._stamps = _stamps(self._properties)
        try:
            self._context = self._made(self._properties, self._client_auth)
        except ConfigError as error:
            log.warning("TLS not reloaded from changed files: %s", error)
        else:
            log.info("TLS reloaded from changed files listener=%s", self._name)


def _client_auth(protocol: str, values: ListenerValues) -> str:
    """On SASL_SSL only a value of the listener itself counts: SASL names the principal."""
    if protocol == "SASL_SSL":
        return values.own("ssl.client.auth") or "none"
    return values.text("ssl.client.auth") or "none"


def _stamps(properties: Mapping[str, str]) -> tuple[tuple[int, int, int] | None, ...]:
    found: list[tuple[int, int, int] | None] = []
    for file in store_files(properties):
        try:
            stat = os.stat(file)
            found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            found.append(None)
    return tuple(found)
