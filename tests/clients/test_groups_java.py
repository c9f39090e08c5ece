"""Groups of the Java client, by Kafka's tools: both protocols, alone and mixed."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.apache_kafka import RUN_WITHIN_S, ApacheKafka, apache_kafka
from tests.support.broker import BrokerProcess
from tests.support.clients import Message
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient
from tests.support.groups import Group

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
EACH = 20


@pytest.fixture
def java() -> ApacheKafka:
    return apache_kafka()


@pytest.fixture
def served(fresh_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    broker = fresh_broker("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=3")
    ConfluentAdmin(broker.bootstrap).create_topic("orders", 2)
    produce(broker)
    return broker


def produce(broker: BrokerProcess) -> None:
    messages = [Message(b"%d" % n, partition=n % 2) for n in range(2 * EACH)]
    ConfluentClient(broker.bootstrap).produce("orders", messages)


def consume(
    java: ApacheKafka, broker: BrokerProcess, folder: Path, count: int, **properties: str
) -> list[int]:
    """The output of the console consumer of a group, until it had so many messages."""
    config = folder / "consumer.properties"
    config.write_text("".join(f"{k.replace('_', '.')}={v}\n" for k, v in properties.items()))
    printed = subprocess.run(
        java.command(
            CONSUMER, "--bootstrap-server", broker.bootstrap, "--topic", "orders", "--group",
            "java", "--from-beginning", "--max-messages", count, "--consumer.config", config,
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=RUN_WITHIN_S,
        text=True,
    ).stdout  # fmt: skip
    return sorted(int(line) for line in printed.splitlines() if line.isdigit())


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_a_group_of_the_java_client_resumes_at_its_offsets_and_is_described(
    java: ApacheKafka, served: BrokerProcess, tmp_path: Path, protocol: str
) -> None:
    everything = list(range(2 * EACH))
    assert consume(java, served, tmp_path, 2 * EACH, group_protocol=protocol) == everything
    produce(served)
    assert consume(java, served, tmp_path, 2 * EACH, group_protocol=protocol) == everything
    at = ("--bootstrap-server", served.bootstrap, "--group", "java")
    rows = [
        line.split()
        for line in java.run(GROUPS, *at, "--describe").splitlines()
        if line.startswith("java")
    ]
    # Group, topic, partition, current offset, log end, lag.
    assert sorted(row[1:6] for row in rows) == [
        ["orders", str(partition), str(2 * EACH), str(2 * EACH), "0"] for partition in range(2)
    ]


@pytest.mark.long
def test_the_java_client_shares_a_group_with_others(
    java: ApacheKafka, served: BrokerProcess
) -> None:
    range_only = {"partition.assignment.strategy": "range"}
    with Group(served.bootstrap, "mixed", "orders", config=range_only) as group:
        ours = group.join()
        group.wait_shared(2, [ours])
        group.wait_processed({0: EACH, 1: EACH})
        theirs = subprocess.Popen(
            java.command(
                CONSUMER, "--bootstrap-server", served.bootstrap, "--topic", "orders", "--group",
                "mixed", "--consumer-property",
                "partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor",
            ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            group.wait(lambda: len(ours.owns) == 1, "the Java client to get its half")
        finally:
            theirs.terminate()
            theirs.wait(RUN_WITHIN_S)
        group.wait_shared(2, [ours])
