"""Transactions in a mixed cluster: coordinators of either kind, partitions led by the other kind.

Optional: skipped, with the reason, where Apache Kafka or ZooKeeper is not available.
"""

from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.interop.mixed import OURS, THEIRS, Mixed
from tests.support.apache_kafka import apache_kafka
from tests.support.asking import ask
from tests.support.clients import PATIENCE_S
from tests.support.cluster import until
from tests.support.transforming import read_committed
from tests.support.zookeeper import zookeeper_server

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

GROUP, TRANSACTION = 0, 1
KINDS: Final = {"ours": OURS, "theirs": (THEIRS,)}
OTHER: Final = {"ours": "theirs", "theirs": "ours"}
# Two partitions that brokers of this kind lead.
LED: Final = {"ours": ([0, 1, 2], [1, 2, 0]), "theirs": ([2, 0, 1], [2, 1, 0])}
_numbers: Final = count()


@pytest.fixture(scope="module", params=["ours", "theirs"])
def mixed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mixed]:
    """Brokers of both kinds; the controller is of the kind of the parameter."""
    kafka = apache_kafka()
    server = zookeeper_server(tmp_path_factory.mktemp("zookeeper"))
    internal = {
        f"{topic}.{name}": value
        for topic in ("offsets.topic", "transaction.state.log")
        for name, value in (("num.partitions", "3"), ("replication.factor", "3"))
    } | {"transaction.state.log.min.isr": "1"}
    folder = tmp_path_factory.mktemp("mixed")
    address = f"{server.address}/{request.param}"
    mixed = Mixed(kafka, folder, address, internal, [f"{k}={v}" for k, v in internal.items()])
    starts = [mixed.ours.start, mixed.theirs.start]
    try:
        for start in starts if request.param == "ours" else reversed(starts):
            start()
        mixed.wait_agreed()
        yield mixed
    finally:
        mixed.close()
        server.stop()


def coordinator(mixed: Mixed, key: str, key_type: int) -> int:
    found: list[int] = []

    def known() -> bool:
        port = next(iter(mixed.ports.values()))
        answer = ask(port, ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=(key,))
        (each,) = answer.coordinators
        found[:] = [each.node_id]
        return each.error_code is ErrorCode.none and each.node_id in mixed.ports

    until(known, f"the coordinator of {key}")
    return found[0]


def name_at(mixed: Mixed, kind: str, key_type: int) -> str:
    """A new transactional id or group that a broker of this kind coordinates."""
    names = (f"name-{number}" for number in _numbers)
    return next(each for each in names if coordinator(mixed, each, key_type) in KINDS[kind])


def producer_of(mixed: Mixed, name: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": mixed.bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(60)
    return producer


def transact(producer: Producer, topic: str, values: range, *, commit: bool) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, b"%d" % value, partition=value % 2)
    if commit:
        producer.commit_transaction(60)
    else:
        producer.flush(PATIENCE_S)
        producer.abort_transaction(60)


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_a_coordinator_ends_transactions_in_partitions_of_the_other_kind(
    mixed: Mixed, kind: str
) -> None:
    topic = f"ended-by-{kind}"
    mixed.create(topic, LED[OTHER[kind]])
    producer = producer_of(mixed, name_at(mixed, kind, TRANSACTION))
    for first in range(0, 60, 10):
        transact(producer, topic, range(first, first + 10), commit=first % 20 == 0)
    assert read_committed(mixed.bootstrap, topic) == [n for n in range(60) if n % 20 < 10]
    mixed.wait_in_sync(topic)
    mixed.wait_same_bytes(topic, 2)


def wait_committed(consumer: Consumer, topic: str, offset: int) -> None:
    at = [TopicPartition(topic, 0)]
    until(lambda: consumer.committed(at, PATIENCE_S)[0].offset == offset, f"the offset {offset}")


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_offsets_of_a_group_of_the_other_kind_are_part_of_the_transaction(
    mixed: Mixed, kind: str
) -> None:
    source, target = f"in-{kind}", f"out-{kind}"
    mixed.create(source, LED[kind])
    mixed.create(target, LED[OTHER[kind]])
    mixed.produce(source, 0, *map(str, range(20)))
    producer = producer_of(mixed, name_at(mixed, kind, TRANSACTION))
    group = name_at(mixed, OTHER[kind], GROUP)
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": mixed.bootstrap, "group.id": group, **settings})
    consumer.subscribe([source])
    read: list[bytes] = []
    while len(read) < 20:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None, message.error()
        read.append(message.value() or b"")
    for commit, committed in ((False, -1001), (True, 20)):
        producer.begin_transaction()
        for value in read:
            producer.produce(target, value, partition=int(value) % 2)
        producer.send_offsets_to_transaction(
            [TopicPartition(source, 0, 20)], consumer.consumer_group_metadata(), 60
        )
        (producer.commit_transaction if commit else producer.abort_transaction)(60)
        wait_committed(consumer, source, committed)
    consumer.close()
    assert read_committed(mixed.bootstrap, target) == list(range(20))


@pytest.mark.parametrize("kind", ["theirs", "ours"])
def test_the_next_coordinator_commits_what_a_killed_one_of_the_other_kind_began(
    mixed: Mixed, kind: str
) -> None:
    topic = f"begun-at-{kind}"
    mixed.create(topic, LED[kind])
    name = name_at(mixed, kind, TRANSACTION)
    producer = producer_of(mixed, name)
    transact(producer, topic, range(10), commit=True)
    producer.begin_transaction()
    for value in range(10, 20):
        producer.produce(topic, b"%d" % value, partition=value % 2)
    assert producer.flush(PATIENCE_S) == 0
    for number in KINDS[kind]:
        (mixed.theirs if number == THEIRS else mixed.ours.brokers[number]).kill()
    try:
        assert coordinator(mixed, name, TRANSACTION) in KINDS[OTHER[kind]]
        producer.commit_transaction(60)
        assert read_committed(mixed.bootstrap, topic) == list(range(20))
    finally:
        mixed.theirs.start() if kind == "theirs" else mixed.ours.start()
    mixed.wait_in_sync(topic)
    mixed.wait_agreed()
    mixed.wait_same_bytes(topic, 2)


def test_the_version_of_transactions_stays_0(mixed: Mixed) -> None:
    for number in OURS:
        response = ask(mixed.ports[number], ApiKey.API_VERSIONS)
        finalized = {each.name: each.max_version_level for each in response.finalized_features}
        assert finalized.get("transaction.version", 0) == 0
