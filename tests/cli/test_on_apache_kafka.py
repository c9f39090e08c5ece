"""`reassign`, `elect` and `doctor` against two Apache Kafka brokers.

Skipped where Apache Kafka is not available.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Barnabas
from tests.support.apache_kafka import apache_kafka
from tests.support.committing import committing
from tests.support.kafka_broker import KafkaBroker, running_kafka, running_zookeeper
from tests.support.shifted_clock import clock_of_new_processes

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[KafkaBroker]]:
    """Two brokers without automatic preferred leader election."""
    with contextlib.ExitStack() as running:
        zookeeper = running.enter_context(running_zookeeper(apache_kafka(), tmp_path / "zk"))
        still = {"auto.leader.rebalance.enable": "false"}
        brokers = [
            KafkaBroker(
                zookeeper,
                tmp_path / f"kafka-{number}",
                tmp_path / f"data-{number}",
                {"broker.id": str(number), **still},
            )
            for number in range(2)
        ]
        for broker in brokers:
            running.enter_context(running_kafka(broker))
        monkeypatch.setenv("BARNABAS_BOOTSTRAP", ",".join(b.bootstrap for b in brokers))
        yield brokers


def test_apache_kafka_accepts_plans_throttles_and_elections(
    kafka: list[KafkaBroker], offline: Barnabas, tmp_path: Path
) -> None:
    assert offline("topics", "create", "orders", "-p", 2, "-r", 1).code == 0
    assert offline("produce", "orders", "a", "b", "c", "-q").code == 0

    # Replicate each partition to both brokers, throttled; the throttle is removed at the end.
    plan = ("-p", "orders:0=0,1", "-p", "orders:1=0,1")
    ended = offline("reassign", "run", *plan, "--throttle", 1_000_000, "--timeout", 60)
    assert ended.code == 0, ended.err
    (topic,) = json.loads(offline("topics", "describe", "orders", "--json").out)
    assert [(p["replicas"], sorted(p["isr"])) for p in topic["partitions"]] == [
        ([0, 1], [0, 1])
    ] * 2
    assert topic["configs"] == {}
    assert json.loads(offline("reassign", "list", "--json").out) == []

    # One partition is not led by its preferred replica; a balanced plan moves no data.
    ended = offline("elect", "--topic", "orders", "--json")
    assert ended.code == 0, ended.err
    results = [row["result"] for row in json.loads(ended.out)]
    assert sorted(results) == ["elected", "not needed"]
    ended = offline("reassign", "generate", "--topics", "orders")
    assert "0 replicas to copy" in ended.err
    file = tmp_path / "plan.json"
    file.write_bytes(ended.out)
    assert offline("reassign", "run", "--file", file, "--timeout", 60).code == 0
    assert offline("elect", "--all").code == 0
    (topic,) = json.loads(offline("topics", "describe", "orders", "--json").out)
    assert sorted(p["leader"] for p in topic["partitions"]) == [0, 1]

    assert offline("doctor").code == 0

    # Apache Kafka has no DescribeController.
    ended = offline("controller")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "only Barnabas describes its controller" in ended.err


def test_the_clocks_of_apache_kafka_are_compared_while_groups_commit(
    tmp_path: Path, offline: Barnabas
) -> None:
    """Two broker processes, one ten minutes behind and one ten minutes ahead."""
    with contextlib.ExitStack() as running:
        zookeeper = running.enter_context(running_zookeeper(apache_kafka(), tmp_path / "zk"))
        brokers = []
        for number, seconds in enumerate((-600, 600)):
            properties = {"broker.id": str(number), "offsets.topic.num.partitions": "4"}
            data = tmp_path / f"data-{number}"
            broker = KafkaBroker(zookeeper, tmp_path / f"kafka-{number}", data, properties)
            with clock_of_new_processes(tmp_path, seconds):
                brokers.append(running.enter_context(running_kafka(broker)))

        def clocks() -> list[str]:
            ended = offline("doctor", "-b", brokers[0].bootstrap, "--patience", 5)
            return [line for line in ended.lines if " clock: " in line]

        (unchecked,) = clocks()
        assert unchecked.startswith("unchecked  clock: brokers 0, 1 report no time")
        with committing(brokers[0].bootstrap, groups=16):
            behind, ahead = clocks()
        assert re.match(r"problem  clock: the clock of broker 0 is (600|599) s behind", behind)
        assert re.match(r"problem  clock: the clock of broker 1 is (600|599) s ahead", ahead)
        assert not any("api" in line.lower() for broker in brokers for line in broker.complaints())
