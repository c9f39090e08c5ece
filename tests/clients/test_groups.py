"""Consumer groups of several clients, alone and mixed; members join, leave and die."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.atomic_store import AtomicStore
from tests.support.broker import BrokerProcess
from tests.support.clients import Message
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient
from tests.support.groups import Group

PARTITIONS = 4
PER_PARTITION = 15
SESSION_S = 2.0
CLASSIC = {"session.timeout.ms": int(1000 * SESSION_S), "heartbeat.interval.ms": 200}
PYTHON = {"session_timeout_ms": int(1000 * SESSION_S), "heartbeat_interval_ms": 200}
CONFIGS: dict[str, dict[str, Any]] = {
    "range": {**CLASSIC, "partition.assignment.strategy": "range"},
    "roundrobin": {**CLASSIC, "partition.assignment.strategy": "roundrobin"},
    "cooperative-sticky": {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
_numbers = count(1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose groups begin at once and notice soon."""
    process = BrokerProcess(
        tmp_path_factory.mktemp("groups"),
        [
            "group.initial.rebalance.delay.ms=0",
            "group.min.session.timeout.ms=500",
            "group.consumer.session.timeout.ms=2000",
            "group.consumer.min.session.timeout.ms=500",
            "group.consumer.heartbeat.interval.ms=200",
            "group.consumer.min.heartbeat.interval.ms=100",
            "offsets.topic.num.partitions=4",
        ],
    )
    with process.running():
        yield process


@pytest.fixture
def topic(served: BrokerProcess) -> str:
    name = f"work-{next(_numbers)}"
    ConfluentAdmin(served.bootstrap).create_topic(name, PARTITIONS)
    return name


def produce(served: BrokerProcess, topic: str, each: int = PER_PARTITION) -> None:
    messages = [
        Message(b"%d" % n, partition=partition)
        for partition in range(PARTITIONS)
        for n in range(each)
    ]
    ConfluentClient(served.bootstrap).produce(topic, messages)


def ends(each: int = PER_PARTITION) -> dict[int, int]:
    return dict.fromkeys(range(PARTITIONS), each)


def committed(served: BrokerProcess, group: str, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": served.bootstrap, "group.id": group})
    asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found = {each.partition: each.offset for each in consumer.committed(asked, timeout=20)}
    consumer.close()
    return found


@pytest.mark.parametrize("protocol", CONFIGS)
def test_members_join_and_leave_and_each_record_is_processed_once(
    served: BrokerProcess, topic: str, protocol: str
) -> None:
    produce(served, topic)
    with Group(served.bootstrap, f"of-{topic}", topic, config=CONFIGS[protocol]) as group:
        first = group.join()
        group.wait_shared(PARTITIONS, [first])
        second, third = group.join(), group.join()
        group.wait_shared(PARTITIONS, [first, second, third])
        group.wait_processed(ends())
        first.stop()
        group.wait_shared(PARTITIONS, [second, third])
        produce(served, topic)
        group.wait_processed(ends(2 * PER_PARTITION))
        second.stop()
        third.stop()
        group.check_nothing_was_owned_twice()
        assert set(group.processed().values()) == {1}
    assert committed(served, group.group, topic) == ends(2 * PER_PARTITION)


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
def test_a_killed_members_partitions_are_reassigned_after_its_session_timeout(
    served: BrokerProcess, topic: str, protocol: str
) -> None:
    with Group(served.bootstrap, f"of-{topic}", topic, config=CONFIGS[protocol]) as group:
        members = [group.join() for _ in range(3)]
        group.wait_shared(PARTITIONS, members)
        produce(served, topic)
        group.wait(lambda: len(group.processed()) > PARTITIONS, "the first records")
        members[0].kill()
        members[1].pause(SESSION_S / 2)  # it was last heard of some time before
        group.wait_shared(PARTITIONS, [members[2]])
        group.wait_processed(ends())
        members[1].kill()
        group.check_nothing_was_owned_twice()


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
def test_each_record_counts_once_if_result_and_position_are_stored_together(
    served: BrokerProcess, topic: str, protocol: str, tmp_path: Path
) -> None:
    path = tmp_path / "results.sqlite"
    store = AtomicStore(path)
    with Group(
        served.bootstrap, f"of-{topic}", topic, config=CONFIGS[protocol], store=str(path)
    ) as group:
        members = [group.join() for _ in range(3)]
        group.wait_shared(PARTITIONS, members)
        members[1].order("hold")
        produce(served, topic)
        group.wait(lambda: members[1].events_of("holding"), "a record at hand")
        members[1].pause(SESSION_S / 2)
        members[0].kill()
        group.wait_shared(PARTITIONS, [members[2]])
        group.wait(lambda: store.results().total() == PER_PARTITION * PARTITIONS, "all results")
        members[1].resume()
        members[1].order("go on")  # with a record that another has done meanwhile
        members.append(group.join())
        produce(served, topic)
        group.wait(
            lambda: store.results().total() >= 2 * PER_PARTITION * PARTITIONS, "the other results"
        )
    counted = {(partition, n) for partition in ends() for n in range(2 * PER_PARTITION)}
    assert store.results() == dict.fromkeys(counted, 1)
    store.close()


def test_a_member_that_stalls_beyond_its_poll_interval_loses_its_partitions(
    served: BrokerProcess, topic: str
) -> None:
    config = {**CONFIGS["range"], "max.poll.interval.ms": 2500}
    with Group(served.bootstrap, f"of-{topic}", topic, config=config) as group:
        lively, lazy = group.join(), group.join()
        group.wait_shared(PARTITIONS, [lively, lazy])
        lazy.order("stall for 5")
        group.wait(lambda: len(lively.owns) == PARTITIONS, "the lively one to have all")
        assert not lazy.events_of("stalled")
        produce(served, topic)
        group.wait_processed(ends())
        group.wait_shared(PARTITIONS, [lively, lazy])


def test_a_static_member_that_returns_in_time_causes_no_rebalance(
    served: BrokerProcess, topic: str
) -> None:
    config = {**CONFIGS["range"], "session.timeout.ms": 20_000}
    with Group(served.bootstrap, f"of-{topic}", topic) as group:
        other = group.join(config={**config, "group.instance.id": "other"})
        before = group.join(config={**config, "group.instance.id": "static"})
        group.wait_shared(PARTITIONS, [other, before])
        had, changes = before.owns, len(other.events_of("revoked"))
        before.kill()
        again = group.join(config={**config, "group.instance.id": "static"})
        group.wait(lambda: again.owns == had, "it to have what it had")
        assert len(other.events_of("revoked")) == changes
        group.check_nothing_was_owned_twice()


def test_members_of_different_clients_share_a_group(served: BrokerProcess, topic: str) -> None:
    produce(served, topic)
    with Group(served.bootstrap, f"of-{topic}", topic) as group:
        members = [
            group.join("confluent-kafka", config=CONFIGS["range"]),
            group.join("kafka-python", config=PYTHON),
            group.join("aiokafka", config=PYTHON),
        ]
        group.wait_shared(PARTITIONS, members)
        group.wait_processed(ends())
        members[0].stop()
        group.wait_shared(PARTITIONS, members[1:])
        produce(served, topic)
        group.wait_processed(ends(2 * PER_PARTITION))
        members[1].kill()
        group.wait_shared(PARTITIONS, members[2:])
        group.check_nothing_was_owned_twice()
        # Whatever the killed one had processed and not committed is the last one's to do again.
        group.wait(
            lambda: committed(served, group.group, topic) == ends(2 * PER_PARTITION),
            "all records to be committed",
        )
        members[2].stop()
    assert committed(served, group.group, topic) == ends(2 * PER_PARTITION)


def test_a_group_upgrades_to_the_consumer_protocol_and_back_online(
    served: BrokerProcess, topic: str
) -> None:
    with Group(served.bootstrap, f"of-{topic}", topic) as group:
        old = [group.join(config=CONFIGS["range"]), group.join(config=CONFIGS["range"])]
        group.wait_shared(PARTITIONS, old)
        produce(served, topic)
        new = group.join(config=CONFIGS["consumer"])
        group.wait_shared(PARTITIONS, [*old, new])
        for member in old:
            member.stop()
        group.wait_shared(PARTITIONS, [new])
        group.wait_processed(ends())
        back = group.join(config=CONFIGS["range"])
        group.wait_shared(PARTITIONS, [new, back])
        new.stop()
        group.wait_shared(PARTITIONS, [back])
        produce(served, topic)
        group.wait_processed(ends(2 * PER_PARTITION))
        group.check_nothing_was_owned_twice()
        back.stop()
    assert committed(served, group.group, topic) == ends(2 * PER_PARTITION)
