"""The security of a cluster under test: TLS, SASL, and one user for the test."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.config.jaas import jaas_text

_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER: Final = "admin"
PASSWORD: Final = "admin-secret"
_BROKER: Final = "broker"
_BROKER_PASSWORD: Final = "broker-secret"


class ClusterSecurity(NamedTuple):
    """The properties of brokers and clients, and the protocol of the listeners."""

    protocol: str = "PLAINTEXT"
    of_brokers: Mapping[str, str] = {}
    of_clients: Mapping[str, str] = {}

    @classmethod
    def make(cls, directory: Path) -> "ClusterSecurity":
        """A certificate authority in `directory`, and the properties that use it."""
        from barnabas.security.certificate_authority import CertificateAuthority

        authority = CertificateAuthority.open_or_create(directory)
        issued = authority.issue("broker", ["localhost", "127.0.0.1"])
        users = {f"user_{USER}": PASSWORD, f"user_{_BROKER}": _BROKER_PASSWORD}
        login = {"username": _BROKER, "password": _BROKER_PASSWORD}
        brokers = {
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas_text(_MODULE, login | users),
            "ssl.keystore.location": str(issued.pem),
            "ssl.truststore.location": str(authority.certificate_file),
        }
        clients = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(authority.certificate_file),
        }
        return cls("SASL_SSL", brokers, clients)
