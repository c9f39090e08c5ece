"""The security of a local cluster: certificates, users, and the files of its admin.

Everything lies below DIR/secure and in DIR/client.properties, readable by its owner only, and is
kept for the next run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.base.private_files import write_private
from barnabas.base.randomness import Random
from barnabas.config.broker_config import broker_key
from barnabas.config.jaas import jaas_text
from barnabas.config.properties import format_properties, read_properties

_MECHANISM: Final = "SCRAM-SHA-512"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
_ITERATIONS: Final = 4096
_DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
ADMIN: Final = "admin"
BROKER: Final = "broker"
ZOOKEEPER: Final = "zookeeper"  # the password of the brokers with their own ZooKeeper
TOKENS: Final = "delegation-tokens"  # the secret that brokers make delegation tokens with


class ClusterSecurity(NamedTuple):
    """The users of a secure cluster, and where its files are."""

    directory: Path
    admin_password: str
    broker_password: str
    zookeeper_password: str
    token_secret: str

    @classmethod
    def prepare(cls, cluster: Path) -> "ClusterSecurity":
        """Make certificates and passwords, or use those of an earlier run."""
        from barnabas.security.certificate_authority import CertificateAuthority

        directory = cluster / "secure"
        for each in (directory, cluster / "zookeeper"):  # whose files have users and their keys
            each.mkdir(mode=0o700, exist_ok=True)
            each.chmod(0o700)
        authority = CertificateAuthority.open_or_create(directory)
        if not (directory / "broker.pem").exists():
            authority.issue("broker", ["localhost", "127.0.0.1", "::1"])
        users = directory / "users.properties"
        found = read_properties(users) if users.exists() else {}
        made = {user: Random().uuid().hex for user in (ADMIN, BROKER, ZOOKEEPER, TOKENS)} | found
        if made != found:
            write_private(users, format_properties(made))
        return cls(directory, made[ADMIN], made[BROKER], made[ZOOKEEPER], made[TOKENS])

    @classmethod
    def is_of(cls, cluster: Path) -> bool:
        """True if an earlier run of the cluster was secure."""
        return (cluster / "secure" / "users.properties").exists()

    @property
    def client_properties(self) -> Path:
        return self.directory.parent / "client.properties"

    @property
    def client_librdkafka(self) -> Path:
        return self.directory.parent / "client.librdkafka"

    def of_zookeeper(self) -> tuple[list[str], list[str]]:
        """The settings and Java options of a ZooKeeper server that knows the brokers."""
        file = self.directory / "zookeeper.jaas"
        login = jaas_text(_DIGEST, {f"user_{BROKER}": self.zookeeper_password})
        write_private(file, f"Server {{\n  {login}\n}};\n")
        provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        return [f"authProvider.1={provider}"], [f"-Djava.security.auth.login.config={file}"]

    def of_tree(self) -> dict[str, str]:
        """The properties of brokers whose ZooKeeper is `of_zookeeper`."""
        login = {"username": BROKER, "password": self.zookeeper_password}
        return {
            "barnabas.zookeeper.sasl.jaas.config": jaas_text(_DIGEST, login),
            "zookeeper.set.acl": "true",
        }

    def of_brokers(self) -> dict[str, str]:
        """The properties of each broker."""
        jaas = jaas_text(_MODULE, {"username": BROKER, "password": self.broker_password})
        properties = {
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
            "sasl.mechanism.inter.broker.protocol": _MECHANISM,
            f"listener.name.sasl_ssl.{_MECHANISM.lower()}.sasl.jaas.config": jaas,
            "ssl.keystore.location": str(self.directory / "broker.pem"),
            "ssl.keystore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "ca.pem"),
            "ssl.truststore.type": "PEM",
            "delegation.token.secret.key": self.token_secret,
        }
        authorizer = broker_key("authorizer.class.name")
        if authorizer is not None and authorizer.served:
            properties["authorizer.class.name"] = _AUTHORIZER
            properties["super.users"] = f"User:{ADMIN};User:{BROKER}"
        return properties

    def of_clients(self) -> dict[str, str]:
        """The properties of the admin's clients, in the names of Kafka's Java client."""
        login = {"username": ADMIN, "password": self.admin_password}
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.jaas.config": jaas_text(_MODULE, login),
            "ssl.truststore.location": str(self.directory / "ca.pem"),
            "ssl.truststore.type": "PEM",
        }

    def write_clients(self, brokers: Sequence[str]) -> None:
        """Write the files with which the admin gets in."""
        bootstrap = {"bootstrap.servers": ",".join(brokers)}
        java = format_properties(bootstrap | self.of_clients(), " For Kafka's Java clients.")
        write_private(self.client_properties, java)
        librdkafka = bootstrap | {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": _MECHANISM,
            "sasl.username": ADMIN,
            "sasl.password": self.admin_password,
            "ssl.ca.location": str(self.directory / "ca.pem"),
        }
        lines = "".join(f"{key}={value}\n" for key, value in librdkafka.items())
        write_private(self.client_librdkafka, lines)

    async def store_users(self, zookeeper: str, *, is_own: bool) -> None:
        """Write the users to the tree: brokers authenticate with them before any serves.

        A tree of our own protects them: only brokers read them. Its root is protected, too: who
        may change a node's children could delete the controller.
        """
        from barnabas.client.scram import HASHES, salted_password
        from barnabas.security.scram_credentials import credential_of, credential_text
        from barnabas.znodes import layout, paths
        from barnabas.znodes.tree import NodeExists
        from barnabas.znodes.zookeeper import zookeeper_tree
        from barnabas.znodes.zookeeper.zookeeper_security import OPEN, ZooKeeperSecurity

        own = ZooKeeperSecurity(None, BROKER, self.zookeeper_password, set_acl=True)
        session = await zookeeper_tree.connect(
            zookeeper,
            session_timeout_ms=10_000,
            connection_timeout_ms=20_000,
            security=own if is_own else OPEN,
        )
        try:
            if is_own:
                await session.protect("/")
            for user, password in ((ADMIN, self.admin_password), (BROKER, self.broker_password)):
                config = {}
                for mechanism, algorithm in HASHES.items():
                    salt = Random().uuid().bytes
                    salted = salted_password(algorithm, password, salt, _ITERATIONS)
                    credential = credential_of(mechanism, salted, salt, _ITERATIONS)
                    config[mechanism] = credential_text(credential)
                path = paths.config_path(paths.user_entity(user))
                try:
                    data = layout.encode_config(config)
                    await session.create(path, data, make_parents=True)
                except NodeExists:  # of an earlier run, with the same password
                    continue
        finally:
            await session.close()
