"""Barnabas and Apache Kafka in one cluster whose only listener is SASL_SSL.

Either kind obeys the users, ACLs and quotas that the other wrote. Skipped where Apache Kafka or
ZooKeeper is not available.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kazoo.client import KazooClient

from barnabas.base.ports import free_port
from barnabas.client.scram import HASHES, salted_password
from barnabas.config.jaas import jaas_text
from barnabas.config.properties import format_properties
from barnabas.security.certificate_authority import CertificateAuthority
from barnabas.security.scram_credentials import credential_of, credential_text
from barnabas.znodes.layout import encode_config
from tests.spark.commands import barnabas
from tests.support.apache_kafka import apache_kafka
from tests.support.broker import BrokerProcess
from tests.support.clients import PATIENCE_S
from tests.support.confluent_client import admin
from tests.support.kafka_broker import KafkaBroker, ZooKeeper
from tests.support.logins import Login, confluent, java
from tests.support.waiting import until
from tests.support.zookeeper import zookeeper_server

connect: Any = KazooClient
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

OURS: Final = 0
THEIRS: Final = 1
BOTH: Final = (OURS, THEIRS)
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SCRAM_512: Final = "SCRAM-SHA-512"


def _properties(files: Path, mechanism: str) -> dict[str, str]:
    """The same for both kinds of brokers, which log in to each other by this mechanism."""
    login = {"username": "broker", "password": "b-secret"}
    users = {**login, "user_broker": "b-secret"}
    prefix = "listener.name.sasl_ssl"
    return {
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"{prefix}.plain.sasl.jaas.config": jaas_text(_PLAIN, users),
        f"{prefix}.scram-sha-512.sasl.jaas.config": jaas_text(_SCRAM, login),
        "ssl.keystore.location": str(files / "broker.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(files / "ca.pem"),
        "ssl.truststore.type": "PEM",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:broker",
        "password.encoder.secret": "the secret",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "zookeeper.session.timeout.ms": "6000",
    }


class SecureKafka(KafkaBroker):
    """A broker of Apache Kafka that only a client with a login can ask."""

    login: Login

    def _led_partitions(self) -> int:
        metadata = admin.AdminClient(confluent(self.login)).list_topics(timeout=PATIENCE_S)
        return 0 if metadata.controller_id >= 0 else -1


class SecureMixed:
    """One broker of each kind, and the logins of a super user and of others at each."""

    def __init__(self, folder: Path, zookeeper: str, mechanism: str) -> None:
        self.folder = folder
        self._files = folder / "files"
        authority = CertificateAuthority.create(self._files)
        authority.issue("broker", ["localhost", "127.0.0.1"])
        properties = _properties(self._files, mechanism)
        at = f"127.0.0.1:{free_port()}"
        (folder / "ours").mkdir()
        overrides = [*(f"{k}={v}" for k, v in properties.items()), f"listeners=SASL_SSL://{at}"]
        self.ours = BrokerProcess(folder / "ours", overrides, node_id=OURS, zookeeper=zookeeper)
        address = ZooKeeper(apache_kafka(), folder / "theirs")  # only for its address
        address.address = zookeeper
        self.theirs = SecureKafka(address, folder / "theirs", folder / "theirs" / "data", {})
        more = {"broker.id": str(THEIRS), "listeners": f"SASL_SSL://{self.theirs.bootstrap}"}
        self.theirs._properties.update(properties | more)
        self._at = {OURS: at, THEIRS: self.theirs.bootstrap}
        self.theirs.login = self.login(THEIRS)

    def login(self, broker: int, user: str = "broker", password: str = "b-secret") -> Login:
        mechanism = "PLAIN" if user == "broker" else "SCRAM-SHA-512"
        authority = self._files / "ca.pem"
        return Login(self._at[broker], "SASL_SSL", mechanism, user, password, authority=authority)

    def command(self, broker: int, *arguments: str) -> str:
        """Run one of our commands at a broker of either kind."""
        file = self.folder / "admin.properties"
        file.write_text(format_properties(java(self.login(broker))))
        ended = barnabas(*arguments, "-b", self._at[broker], "--command-config", file)
        assert ended.code == 0, ended.err
        return ended.out

    def create(self, topic: str) -> None:
        """Partition 0 is led by ours, partition 1 by theirs; both have both."""
        new = admin.NewTopic(topic, 2, replica_assignment=[[OURS, THEIRS], [THEIRS, OURS]])
        client = admin.AdminClient(confluent(self.login(OURS)))
        client.create_topics([new])[topic].result(PATIENCE_S)

        def is_known(broker: int) -> bool:
            asked = admin.AdminClient(confluent(self.login(broker)))
            partitions = asked.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
            leaders = {number: each.leader for number, each in partitions.items()}
            return leaders == {0: OURS, 1: THEIRS}

        for broker in BOTH:
            until(partial(is_known, broker), f"{topic} at {broker}")


def store_broker(zookeeper: str) -> None:
    """The credential of brokers is in the tree before any broker starts."""
    salt = b"a salt of brokers"
    salted = salted_password(HASHES[_SCRAM_512], "b-secret", salt, 4096)
    text = credential_text(credential_of(_SCRAM_512, salted, salt, 4096))
    tree = connect(zookeeper)
    tree.start(PATIENCE_S)
    try:
        tree.create("/config/users/broker", encode_config({_SCRAM_512: text}), makepath=True)
    finally:
        tree.stop()
        tree.close()


@pytest.fixture(scope="module", params=["PLAIN"])
def mixed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureMixed]:
    apache_kafka()
    server = zookeeper_server(tmp_path_factory.mktemp("zookeeper"))
    both = SecureMixed(tmp_path_factory.mktemp("mixed"), server.address, request.param)
    if request.param == _SCRAM_512:
        store_broker(server.address)
    try:
        both.ours.start()
        both.theirs.start()
        yield both
    finally:
        both.ours.close()
        both.theirs.kill()
        server.stop()


def produce(login: Login, topic: str, partition: int, value: bytes, **more: Any) -> str | None:
    """The error of a record, None if there is none."""
    errors: list[str | None] = []

    def on_delivery(error: Any, _: Any) -> None:
        errors.append(None if error is None else error.name())

    producer = Producer(confluent(login) | {"acks": "all", "message.timeout.ms": 60_000, **more})
    producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
    assert producer.flush(PATIENCE_S) == 0
    return errors[0]


def first_value(login: Login, topic: str, partition: int) -> bytes | None:
    consumer = Consumer(confluent(login) | {"group.id": "any"})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        message = consumer.poll(PATIENCE_S)
        return message.value() if message is not None else None
    finally:
        consumer.close()


@pytest.mark.parametrize("mixed", ["PLAIN", _SCRAM_512], indirect=True)
def test_brokers_of_both_kinds_replicate_from_each_other(mixed: SecureMixed) -> None:
    mixed.create("both")
    admin_at_ours = admin.AdminClient(confluent(mixed.login(OURS)))
    for partition in (0, 1):
        assert produce(mixed.login(OURS), "both", partition, b"value %d" % partition) is None
        assert first_value(mixed.login(THEIRS), "both", partition) == b"value %d" % partition

    def all_in_sync() -> bool:
        found = admin_at_ours.list_topics("both", timeout=PATIENCE_S).topics["both"].partitions
        return all(sorted(each.isrs) == list(BOTH) for each in found.values())

    until(all_in_sync, "both in sync")

    def files(partition: int) -> set[bytes]:
        folders = (mixed.ours.data, mixed.theirs.data)
        found = (sorted((each / f"both-{partition}").glob("*.log")) for each in folders)
        return {b"".join(file.read_bytes() for file in each) for each in found}

    until(lambda: all(len(files(each)) == 1 for each in (0, 1)), "the same files")
    assert all(b"value" in next(iter(files(each))) for each in (0, 1))


def can_log_in(login: Login) -> bool:
    try:
        admin.AdminClient(confluent(login)).list_topics(timeout=2.0)
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize("writer", BOTH)
def test_users_and_acls_that_one_kind_wrote_are_obeyed_by_the_other(
    mixed: SecureMixed, writer: int, topic: str
) -> None:
    mixed.create(topic)
    user, secret = f"user-{writer}", "u-secret"
    mixed.command(writer, "users", "add", user, "-m", "SCRAM-SHA-512", "--password", secret)
    for broker in BOTH:
        login = mixed.login(broker, user, secret)
        until(partial(can_log_in, login), f"{user} at {broker}")
        assert not can_log_in(mixed.login(broker, user, "wrong"))

    def outcomes() -> list[str | None]:
        login = mixed.login(OURS, user, secret)
        return [produce(login, topic, partition, b"v") for partition in (0, 1)]

    assert outcomes() == ["TOPIC_AUTHORIZATION_FAILED"] * 2
    rule = ("--allow", f"User:{user}", "--operation", "write", "--topic", topic)
    mixed.command(writer, "acls", "add", *rule)
    until(lambda: outcomes() == [None, None], "the right")
    other = BOTH[1 - writer]
    mixed.command(other, "acls", "remove", "--topic", topic, "--yes")
    until(lambda: outcomes() == ["TOPIC_AUTHORIZATION_FAILED"] * 2, "the end of the right")


@pytest.mark.parametrize("writer", BOTH)
def test_quotas_that_one_kind_wrote_throttle_at_both(
    mixed: SecureMixed, writer: int, topic: str
) -> None:
    mixed.create(topic)
    name = f"client-{writer}"
    mixed.command(writer, "quotas", "set", "--client-id", name, "producer_byte_rate=2000")
    for partition in (0, 1):
        until(
            partial(is_throttled, mixed.login(OURS), name, topic, partition),
            f"the broker that leads {partition} to throttle",
        )


def is_throttled(login: Login, name: str, topic: str, partition: int) -> bool:
    throttled: list[Any] = []
    more = {"client.id": name, "throttle_cb": throttled.append}
    assert produce(login, topic, partition, b"x" * 30_000, **more) is None
    return bool(throttled)
