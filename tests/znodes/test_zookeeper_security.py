"""ZooKeeper with TLS, SASL and ACLs."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.base.errors import ConfigError
from barnabas.base.ports import free_port
from barnabas.client.tls import client_context
from barnabas.config.broker_config import BrokerConfig
from barnabas.security.certificate_authority import STORE_PASSWORD, CertificateAuthority
from barnabas.server.cluster.zookeeper_settings import zookeeper_security
from barnabas.znodes.tree import ConnectionLoss, ZnodeError
from barnabas.znodes.zookeeper import zookeeper_tree
from barnabas.znodes.zookeeper.zookeeper_security import OPEN, ZooKeeperSecurity
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer

SOON_MS = 20_000
JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_kafka="secret";
};
"""


class Secured:
    """A server with a plain and a TLS port, and its certificates."""

    def __init__(self, folder: Path) -> None:
        self.certificates = folder / "ca"
        authority = CertificateAuthority.create(self.certificates)
        authority.issue("zookeeper", ["127.0.0.1"])
        jaas = folder / "jaas.conf"
        jaas.write_text(JAAS)
        self.tls_port = free_port()
        self.server = ZooKeeperServer(
            folder / "zk",
            settings=[
                f"secureClientPort={self.tls_port}",
                "secureClientPortAddress=127.0.0.1",
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                f"ssl.keyStore.location={self.certificates / 'zookeeper.p12'}",
                f"ssl.keyStore.password={STORE_PASSWORD}",
                f"ssl.trustStore.location={self.certificates / 'ca.p12'}",
                f"ssl.trustStore.password={STORE_PASSWORD}",
                "ssl.clientAuth=none",
                "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            ],
            java_options=[f"-Djava.security.auth.login.config={jaas}"],
        )

    @property
    def tls_address(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    def security(self, password: str = "secret", *, set_acl: bool = True) -> ZooKeeperSecurity:
        trusted = {"ssl.truststore.location": str(self.certificates / "ca.pem")}
        return ZooKeeperSecurity(client_context(trusted), "kafka", password, set_acl)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("zookeeper"))
    made.server.start()
    yield made
    made.server.stop()


async def connect(address: str, security: ZooKeeperSecurity) -> zookeeper_tree.ZooKeeperSession:
    return await zookeeper_tree.connect(
        address, session_timeout_ms=6000, connection_timeout_ms=SOON_MS, security=security
    )


def test_s33_nodes_that_a_broker_creates_are_changed_by_brokers_only(secured: Secured) -> None:
    async def run() -> None:
        ours = await connect(secured.tls_address, secured.security())
        anybody = await connect(secured.server.address, OPEN)
        try:
            await ours.create("/config/users/alice", b"secret", make_parents=True)
            await ours.create("/brokers/ids", b"x" * 300_000, make_parents=True)
            data, _ = await anybody.get("/brokers/ids")
            assert len(data) == 300_000
            for denied in (
                anybody.get("/config/users/alice"),
                anybody.set("/brokers/ids", b""),
                anybody.create("/brokers/ids/0", b""),
            ):
                with pytest.raises(ZnodeError, match=r"(?i)auth"):
                    await denied
            await anybody.create("/open")
            await anybody.create("/open/before")
            await ours.protect("/open")
            for refused in (anybody.create("/open/after"), anybody.delete("/open/before")):
                with pytest.raises(ZnodeError, match=r"(?i)auth"):
                    await refused
            assert (await ours.get("/config/users/alice"))[0] == b"secret"
            await ours.set("/brokers/ids", b"y")
        finally:
            await ours.close()
            await anybody.close()

    asyncio.run(run())


def test_s33_a_wrong_password_and_a_foreign_certificate_are_refused(
    secured: Secured, tmp_path: Path
) -> None:
    foreign = CertificateAuthority.create(tmp_path / "foreign")
    trusted = {"ssl.truststore.location": str(foreign.certificate_file)}

    async def refused(security: ZooKeeperSecurity) -> None:
        with pytest.raises((ConnectionLoss, ZnodeError)):
            await zookeeper_tree.connect(
                secured.tls_address,
                session_timeout_ms=2000,
                connection_timeout_ms=2000,
                security=security,
            )

    asyncio.run(refused(ZooKeeperSecurity(client_context(trusted))))
    asyncio.run(refused(secured.security("wrong")))


def test_s33_the_properties_are_kafkas(secured: Secured) -> None:
    found = zookeeper_security(
        BrokerConfig(
            {
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.ssl.truststore.location": str(secured.certificates / "ca.pem"),
                "zookeeper.set.acl": "true",
                "barnabas.zookeeper.sasl.jaas.config": "Digest required username=u password=p;",
            }
        )
    )
    assert (found.tls is not None, found.username, found.set_acl) == (True, "u", True)
    with pytest.raises(ConfigError, match="needs a login with ZooKeeper"):
        zookeeper_security(BrokerConfig({"zookeeper.set.acl": "true"}))
