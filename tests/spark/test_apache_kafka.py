"""Reads from an Apache Kafka broker: transactions, archives, and every SASL mechanism."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from barnabas.base.ports import free_port
from barnabas.spark.user_errors import SparkFailure
from tests.spark.commands import barnabas
from tests.spark.conftest import create_topic, produce
from tests.spark.test_read_task import many, read_all, read_options
from tests.spark.transactions import commit_abort_commit
from tests.support.apache_kafka import apache_kafka
from tests.support.kafka_broker import KafkaBroker, running_kafka, running_zookeeper

pytestmark = pytest.mark.long

_LOGIN = 'org.apache.kafka.common.security.{}LoginModule required username="ann" password="s3c";'
_PLAIN = _LOGIN.format("plain.Plain")
_SCRAM = _LOGIN.format("scram.Scram")


class Served(NamedTuple):
    """A broker's listeners: one for everybody, one for who logs in, one with TLS for these."""

    open: str
    login: str
    login_tls: str
    certificate: Path


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("kafka")
    release = apache_kafka()
    certificate = _certificate(folder)
    ports = [free_port() for _ in range(3)]
    addresses = [f"localhost:{port}" for port in ports]
    names = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")
    properties = {
        "listeners": ",".join(f"{n}://{a}" for n, a in zip(names, addresses, strict=True)),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate),
    }
    for name in names[1:]:
        prefix = f"listener.name.{name.lower()}"
        properties[f"{prefix}.plain.sasl.jaas.config"] = _PLAIN.replace(";", ' user_ann="s3c";')
        for scram in ("scram-sha-256", "scram-sha-512"):
            properties[f"{prefix}.{scram}.sasl.jaas.config"] = _SCRAM
    with running_zookeeper(release, folder / "zookeeper") as zookeeper:
        broker = KafkaBroker(zookeeper, folder / "broker", folder / "data", properties)
        broker.bootstrap = addresses[0]
        release.run(
            "kafka.admin.ConfigCommand",
            *("--zookeeper", zookeeper.address, "--alter", "--entity-type", "users"),
            *("--entity-name", "ann", "--add-config"),
            "SCRAM-SHA-256=[password=s3c],SCRAM-SHA-512=[password=s3c]",
        )
        with running_kafka(broker):
            yield Served(addresses[0], addresses[1], addresses[2], certificate)


def _certificate(folder: Path) -> Path:
    options = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key -out own"
    command = ["openssl", *options.split(), "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    whole = folder / "whole.pem"
    whole.write_bytes((folder / "own").read_bytes() + (folder / "key").read_bytes())
    return whole


def test_read_committed_returns_only_committed_records(kafka: Served, topic: str) -> None:
    create_topic(kafka.open, topic)
    commit_abort_commit(kafka.open, topic)

    def found(level: str) -> set[bytes]:
        options = read_options(kafka.open, topic, **{"kafka.isolation.level": level})
        return {value[:1] for value in read_all(options)}

    assert found("read_uncommitted") == {b"a", b"b", b"c"}
    assert found("read_committed") == {b"a", b"c"}


def test_records_of_aborted_transactions_are_archived_only_on_request(
    spark: SparkSession, kafka: Served, topic: str, tmp_path: Path
) -> None:
    create_topic(kafka.open, topic)
    commit_abort_commit(kafka.open, topic)

    def archived(folder: str, *more: str) -> list[bytes]:
        to = tmp_path / folder
        ended = barnabas("pipeline", "archive", topic, "--to", to, "-b", kafka.open, *more)
        assert ended.code == 0, ended.err
        rows = spark.read.parquet(str(to)).orderBy("offset").collect()
        return [bytes(row.value) for row in rows]

    committed = [b"%s%d" % (name, number) for name in (b"a", b"c") for number in range(5)]
    assert archived("committed") == committed
    everything = archived("all", "-X", "isolation.level=read_uncommitted")
    assert sorted(everything) == sorted([*committed, *(b"b%d" % number for number in range(5))])


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_an_authenticated_client_reads(
    kafka: Served, topic: str, protocol: str, mechanism: str
) -> None:
    create_topic(kafka.open, topic)
    produce(kafka.open, topic, many(100))

    options = read_options(**_login(kafka, topic, protocol, mechanism, "s3c"))

    assert read_all(options) == [record["value"] for record in many(100)]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_reported(kafka: Served, topic: str, mechanism: str) -> None:
    create_topic(kafka.open, topic)

    with pytest.raises(
        SparkFailure,
        match=r"refuses ann: .*; see kafka\.security\.protocol, kafka\.sasl\.jaas\.config",
    ):
        read_all(read_options(**_login(kafka, topic, "SASL_PLAINTEXT", mechanism, "wrong")))


def _login(kafka: Served, topic: str, protocol: str, mechanism: str, password: str) -> Any:
    jaas = _PLAIN if mechanism == "PLAIN" else _SCRAM
    return {
        "bootstrap": kafka.login if protocol == "SASL_PLAINTEXT" else kafka.login_tls,
        "topic": topic,
        "kafka.security.protocol": protocol,
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": jaas.replace("s3c", password),
        "kafka.ssl.truststore.location": str(kafka.certificate),
    }
