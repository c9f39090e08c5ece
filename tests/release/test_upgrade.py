"""Upgrades: directories of earlier releases are opened, those of later ones are refused."""

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kazoo.client import KazooClient

from barnabas.znodes import layout
from barnabas.znodes.embedded.journal import FILE, _line
from barnabas.znodes.paths import CLUSTER_ID
from tests.support.broker import BrokerProcess
from tests.support.documents import ROOT, document
from tests.support.waiting import until

connect: Any = KazooClient
# A node that is created, in the journal of the embedded tree.
WRITE = re.compile(r'\["\+","(/[^"]+)","((?:[^"\\]|\\.)*)"')
RELEASES = sorted((ROOT / "tests" / "golden").glob("barnabas-*"))
# The group has been empty since the release: by default its offsets would expire.
OVERRIDES = (
    "offsets.retention.minutes=1000000000",
    "group.initial.rebalance.delay.ms=0",
    "log.retention.ms=-1",
)


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker on a copy of what an earlier release wrote."""
    broker = BrokerProcess(tmp_path, OVERRIDES)
    shutil.copytree(request.param, broker.data)
    yield broker
    broker.close()


def test_a_directory_of_an_earlier_release_is_read_and_written(upgraded: BrokerProcess) -> None:
    upgraded.start()
    producer = Producer({"bootstrap.servers": upgraded.bootstrap})
    producer.produce("orders", b"after", partition=0)
    assert producer.flush(10) == 0
    consumer = Consumer({"bootstrap.servers": upgraded.bootstrap, "group.id": "billing"})
    asked = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    assert [each.offset for each in consumer.committed(asked, 10)] == [7, 4]
    consumer.assign([TopicPartition("orders", 0, 0)])
    values = [message.value() for message in consumer.consume(11, 10)]
    consumer.close()
    assert values == [*(f"order {n}".encode() for n in range(0, 20, 2)), b"after"]
    upgraded.stop()


def test_only_committed_transactions_of_an_earlier_release_are_read(
    upgraded: BrokerProcess,
) -> None:
    if not (upgraded.data / "payments-0").exists():
        pytest.skip("a release without transactions")
    upgraded.start()
    consumer = Consumer({"bootstrap.servers": upgraded.bootstrap, "group.id": "read_committed"})
    consumer.assign([TopicPartition("payments", 0, 0)])
    assert [message.value() for message in consumer.consume(1, 30)] == [b"paid"]
    until(lambda: consumer.position([TopicPartition("payments", 0)])[0].offset >= 1)
    assert consumer.consume(1, 0.5) == []
    consumer.close()
    producer = Producer({"bootstrap.servers": upgraded.bootstrap, "transactional.id": "payments-1"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("payments", "paid again")
    producer.commit_transaction(30)
    upgraded.stop()


def test_the_version_of_the_package_has_a_golden_directory() -> None:
    version = tomllib.loads(document("pyproject.toml"))["project"]["version"]
    assert f"barnabas-{version.rpartition('.')[0]}" in [path.name for path in RELEASES]


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_every_znode_with_fields_has_a_version(release: Path) -> None:
    written = WRITE.findall((release / FILE).read_text())
    with_fields = {path: value for path, value in written if value.startswith("{")}
    assert set(with_fields) >= {"/cluster/id", "/controller", "/brokers/topics/orders"}
    assert [path for path, value in with_fields.items() if '\\"version\\"' not in value] == []


def test_a_broker_refuses_a_log_directory_of_a_later_release(upgraded: BrokerProcess) -> None:
    meta = upgraded.data / "meta.properties"
    meta.write_text(meta.read_text().replace("version=0", "version=9"))
    code, error = upgraded.fail_to_start()
    assert code != 0
    assert "has version=9; this release knows 0" in error
    assert "Traceback" not in error


def test_a_broker_refuses_a_tree_of_a_later_release(upgraded: BrokerProcess) -> None:
    (upgraded.data / FILE).write_bytes(_line(["barnabas-znodes", 2, 0, 0]))
    code, error = upgraded.fail_to_start()
    assert code != 0
    assert "has format 2; this release knows 1" in error
    assert "Traceback" not in error


def test_a_broker_refuses_a_cluster_of_a_later_release_on_zookeeper(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    address, _, chroot = zookeeper_chroot.partition("/")
    client: Any = connect(address)
    client.start(30)
    try:
        later = layout.encode_cluster_id("abc").replace(b'"1"', b'"2"')
        client.create(f"/{chroot}{CLUSTER_ID}", later, makepath=True)
    finally:
        client.stop()
        client.close()
    code, error = BrokerProcess(tmp_path, zookeeper=zookeeper_chroot).fail_to_start()
    assert code != 0
    assert "version 2 is newer than 1, which this release knows" in error
    assert "Traceback" not in error
