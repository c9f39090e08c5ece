"""One broker with a listener of each protocol, and the certificates for it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from barnabas.base.ports import free_port
from barnabas.config.jaas import jaas_text
from barnabas.config.properties import format_properties
from barnabas.security.certificate_authority import CertificateAuthority
from tests.support.broker import BrokerProcess

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
USERS: Final = {"user_admin": "admin-secret", "user_alice": 'a"l\\ice'}


class SecureBroker(NamedTuple):
    """The broker's process, the port of each listener by protocol, and its certificates."""

    process: BrokerProcess
    ports: Mapping[str, int]
    certificates: Path

    def at(self, protocol: str) -> str:
        return f"127.0.0.1:{self.ports[protocol]}"

    def librdkafka(self, protocol: str, **more: str) -> dict[str, str]:
        """The settings of a librdkafka client; `sasl_username` is sasl.username."""
        settings = {"bootstrap.servers": self.at(protocol), "security.protocol": protocol.lower()}
        if protocol.endswith("SSL"):
            settings["ssl.ca.location"] = str(self.certificates / "ca.pem")
        return settings | {name.replace("_", "."): value for name, value in more.items()}


def secure_properties(certificates: Path, ports: Mapping[str, int]) -> dict[str, str]:
    """A broker with TLS and SASL on these listeners."""
    jaas = jaas_text(PLAIN_MODULE, {"username": "admin", "password": "admin-secret", **USERS})
    oauth = jaas_text(OAUTH_MODULE, {"unsecuredLoginStringClaim_sub": "admin"})
    listeners = {name: f"listener.name.{name.lower()}" for name in ports}
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        "security.inter.broker.protocol": "SASL_SSL",
        "ssl.keystore.location": str(certificates / "broker.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.client.auth": "requested",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        **{f"{prefix}.plain.sasl.jaas.config": jaas for prefix in listeners.values()},
        **{f"{prefix}.oauthbearer.sasl.jaas.config": oauth for prefix in listeners.values()},
    }


def make_certificates(directory: Path) -> Path:
    authority = CertificateAuthority.create(directory)
    authority.issue("broker", ["localhost", "127.0.0.1"])
    authority.issue("alice")
    return directory


StartBroker = Callable[[Mapping[str, str]], SecureBroker]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certificates") / "ca")


@pytest.fixture(scope="session")
def secure_broker(
    tmp_path_factory: pytest.TempPathFactory, certificates: Path
) -> Iterator[SecureBroker]:
    with running(tmp_path_factory.mktemp("secure"), certificates, {}) as broker:
        yield broker


@pytest.fixture
def start_secure(tmp_path: Path, certificates: Path) -> Iterator[StartBroker]:
    """Starts a broker of its own, with these properties besides."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda more: stack.enter_context(running(tmp_path, certificates, more))


class running:
    """A secure broker that runs within the block."""

    def __init__(self, folder: Path, certificates: Path, more: Mapping[str, str]) -> None:
        ports = {name: free_port() for name in ("SSL", "SASL_PLAINTEXT", "SASL_SSL")}
        properties = secure_properties(certificates, ports) | dict(more)
        file = folder / "extra.properties"
        file.write_text(format_properties(properties))
        overrides = [f"{name}={value}" for name, value in properties.items()]
        self._broker = SecureBroker(BrokerProcess(folder, overrides), ports, certificates)

    def __enter__(self) -> SecureBroker:
        self._broker.process.start()
        return self._broker

    def __exit__(self, *_: object) -> None:
        self._broker.process.close()
