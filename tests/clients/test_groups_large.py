"""A group of a hundred members that share five hundred partitions."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.broker import BrokerProcess
from tests.support.confluent_client import ConfluentAdmin
from tests.support.waiting import until

MEMBERS = 100
PARTITIONS = 500
EACH = 4
CONFIGS: dict[str, dict[str, Any]] = {
    "range": {"partition.assignment.strategy": "range"},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
CLASSIC = {"session.timeout.ms": 60_000, "heartbeat.interval.ms": 1000}

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


class Sharer(threading.Thread):
    """One member: what it owned from when to when, and what it processed."""

    def __init__(self, config: dict[str, Any], topic: str) -> None:
        super().__init__()
        self.owns: dict[int, float] = {}
        self.owned: list[tuple[int, float, float]] = []
        self.processed: Counter[tuple[int, int]] = Counter()
        self.is_stopping = False
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)
        self.start()

    def _assigned(self, _: Any, partitions: list[Any]) -> None:
        self.owns |= {each.partition: time.monotonic() for each in partitions}

    def _revoked(self, _: Any, partitions: list[Any]) -> None:
        now = time.monotonic()
        for each in partitions:
            self.owned.append((each.partition, self.owns.pop(each.partition), now))

    def run(self) -> None:
        while not self.is_stopping:
            for message in self._consumer.consume(50, timeout=0.2):
                partition, offset = message.partition(), message.offset()
                if message.error() is None and partition is not None and offset is not None:
                    self.processed[partition, offset] += 1
        self._consumer.close()

    def leave(self) -> None:
        self.is_stopping = True
        self.join(60)
        assert not self.is_alive()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path, ["group.consumer.heartbeat.interval.ms=1000"])
    with process.running():
        yield process


def are_sharing(members: list[Sharer]) -> bool:
    parts = [list(member.owns) for member in members]
    return all(parts) and sorted(each for part in parts for each in part) == [*range(PARTITIONS)]


def produce(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(PARTITIONS):
        for number in range(EACH):
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(60) == 0


def missing(members: list[Sharer], each: int) -> bool:
    done = sum((member.processed for member in members), Counter())
    return len(done) < each * PARTITIONS


@pytest.mark.parametrize("protocol", CONFIGS)
def test_a_hundred_members_share_five_hundred_partitions_while_some_come_and_go(
    served: BrokerProcess, protocol: str
) -> None:
    ConfluentAdmin(served.bootstrap).create_topic("work", PARTITIONS)
    config = {
        "bootstrap.servers": served.bootstrap,
        "group.id": "large",
        "auto.offset.reset": "earliest",
        "log_level": 0,
        **({} if protocol == "consumer" else CLASSIC),
        **CONFIGS[protocol],
    }
    members = [Sharer(config, "work") for _ in range(MEMBERS - 10)]
    try:
        until(lambda: are_sharing(members), f"{len(members)} members to share all", 180)
        produce(served.bootstrap, "work")
        members += [Sharer(config, "work") for _ in range(10)]
        until(lambda: are_sharing(members), f"{len(members)} members to share all", 180)
        until(lambda: not missing(members, EACH), "all records to be processed", 180)
        gone, members_left = members[:10], members[10:]
        for member in gone:
            member.leave()
        until(lambda: are_sharing(members_left), f"{len(members_left)} members to share all", 180)
        produce(served.bootstrap, "work")
        until(lambda: not missing(members, 2 * EACH), "the new records to be processed", 180)
    finally:
        for member in members:
            member.is_stopping = True
        for member in members:
            member.leave()
    owned = sorted(each for member in members for each in member.owned)
    for (one, _, until_then), (other, since, _) in pairwise(owned):
        assert one != other or until_then <= since, f"partition {one} was owned twice"
