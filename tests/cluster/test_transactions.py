"""Killed transaction coordinators: a transaction is seen whole or not at all.

All transactional ids of a test have one coordinator, which is in another phase when it is killed.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.cluster.operations import create
from tests.support.asking import ask
from tests.support.cluster import Cluster, until

pytestmark = pytest.mark.timeout(300)

ONE_COORDINATOR = ("transaction.state.log.num.partitions=1", "num.partitions=1")
PARTITIONS = 2


def started(fresh_cluster: Callable[..., Cluster], *overrides: str) -> Cluster:
    cluster = fresh_cluster(*ONE_COORDINATOR, *overrides)
    cluster.start()
    cluster.wait_settled()
    return cluster


def coordinator(cluster: Cluster, name: str) -> int:
    """The broker that coordinates an id now."""
    found: list[int] = []

    def asked() -> bool:
        broker = next(iter(cluster.running.values()))
        response = ask(broker.port, ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=(name,))
        (each,) = response.coordinators
        found[:] = [each.node_id]
        return each.error_code is ErrorCode.none and each.node_id in cluster.running

    until(asked, f"the coordinator of {name}")
    return found[0]


def state(cluster: Cluster, name: str) -> str:
    """The state of a transaction, as its coordinator has it; empty while there is none."""
    port = cluster.brokers[coordinator(cluster, name)].port
    response = ask(port, ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=(name,))
    (each,) = response.transaction_states
    return str(each.transaction_state)


def producer(cluster: Cluster, name: str) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    made.init_transactions(60)
    return made


def write(made: Producer, topic: str, number: int) -> None:
    """One record of a transaction in each partition, and all of them in the log."""
    for partition in range(PARTITIONS):
        made.produce(topic, b"%d" % number, partition=partition)
    assert made.flush(60) == 0


def committed(cluster: Cluster, topic: str) -> list[Counter[int]]:
    """How often each transaction is seen in each partition, up to the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"reader-{time.monotonic_ns()}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
    seen: list[Counter[int]] = [Counter() for _ in range(PARTITIONS)]
    open_partitions = set(range(PARTITIONS))
    while open_partitions:
        message = consumer.poll(30)
        assert message is not None, "the consumer is stuck"
        if message.error():
            open_partitions.discard(message.partition() or 0)
        else:
            seen[message.partition() or 0][int(message.value() or b"")] += 1
    consumer.close()
    return seen


def all_seen(cluster: Cluster, topic: str, numbers: set[int]) -> Callable[[], bool]:
    return lambda: committed(cluster, topic) == [Counter(numbers)] * PARTITIONS


def test_a_transaction_commits_although_its_coordinator_is_killed_before(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    """T7: the partitions of an open transaction are in the log of the coordinator"""
    cluster = started(fresh_cluster)
    create(cluster, "orders", PARTITIONS)
    made = producer(cluster, "t")
    made.begin_transaction()
    write(made, "orders", 1)
    first = coordinator(cluster, "t")
    cluster.brokers[first].kill()
    made.commit_transaction(60)
    until(all_seen(cluster, "orders", {1}), "the transaction")
    assert coordinator(cluster, "t") != first
    made.begin_transaction()
    write(made, "orders", 2)
    made.abort_transaction(60)
    made.begin_transaction()
    write(made, "orders", 3)
    made.commit_transaction(60)
    until(all_seen(cluster, "orders", {1, 3}), "the third transaction")


@pytest.mark.long
@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_are_written_by_the_next_coordinator_when_one_is_killed_amid_them(
    fresh_cluster: Callable[..., Cluster], is_commit: bool
) -> None:
    """T7, T25: a leader is down, so its marker waits; then the coordinator is killed, too"""
    cluster = started(fresh_cluster, "transaction.state.log.min.isr=1")
    made = producer(cluster, "t")
    first = coordinator(cluster, "t")
    down, other = (n for n in cluster.brokers if n != first)
    create(cluster, "orders", assignment=[[down], [other]])
    cluster.wait_settled()
    made.begin_transaction()
    write(made, "orders", 1)
    cluster.brokers[down].kill()
    until(lambda: down not in isr(cluster, first), "the ISR without the broker that is down")
    end = made.commit_transaction if is_commit else made.abort_transaction
    ending = threading.Thread(target=end, args=(60,))
    ending.start()
    wanted = "PrepareCommit" if is_commit else "PrepareAbort"
    until(lambda: state(cluster, "t") == wanted, wanted)
    cluster.brokers[first].kill()
    cluster.brokers[down].start()
    cluster.brokers[first].start()
    ending.join(90)
    assert not ending.is_alive()
    completed = wanted.replace("Prepare", "Complete")
    until(lambda: state(cluster, "t") == completed, completed)
    until(all_seen(cluster, "orders", {1} if is_commit else set()), "the outcome")


def isr(cluster: Cluster, told_by: int) -> tuple[int, ...]:
    metadata = cluster.metadata(told_by)
    (topic,) = (each for each in metadata.topics if each.name == "__transaction_state")
    return tuple(topic.partitions[0].isr_nodes)


@pytest.mark.long
def test_transactions_are_seen_whole_while_coordinators_are_killed_again_and_again(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    """T5, T7, T8, T46"""
    cluster = started(fresh_cluster)
    create(cluster, "orders", PARTITIONS)
    stop = threading.Event()
    outcomes: dict[int, str] = {}
    working = threading.Thread(target=end_transactions, args=(cluster, stop, outcomes))
    working.start()
    for _ in range(6):
        until(more_than(outcomes, 20), "more transactions")
        killed = coordinator(cluster, "t")
        cluster.brokers[killed].kill()
        until(more_than(outcomes, 5), "transactions after it")
        cluster.brokers[killed].start()
        cluster.wait_settled()
    stop.set()
    working.join(120)
    assert not working.is_alive()
    producer(cluster, "t")  # whatever is open is aborted
    kept = {number for number, how in outcomes.items() if how == "committed"}
    lost = {number for number, how in outcomes.items() if how == "aborted"}

    def whole() -> bool:
        first, second = committed(cluster, "orders")
        return first == second and set(first) >= kept and max(first.values(), default=1) == 1

    until(whole, "every transaction that was committed, whole and once")
    first, _ = committed(cluster, "orders")
    assert not lost & set(first), "aborted records are not read"


def more_than(outcomes: dict[int, str], by: int) -> Callable[[], bool]:
    wanted = len(outcomes) + by
    return lambda: len(outcomes) >= wanted


def end_transactions(cluster: Cluster, stop: threading.Event, outcomes: dict[int, str]) -> None:
    """Commit two of three transactions, and abort the third; note what is known of each."""
    made: Any = producer(cluster, "t")
    for number in count():
        if stop.is_set():
            return
        try:
            made.begin_transaction()
            for partition in range(PARTITIONS):
                made.produce("orders", b"%d" % number, partition=partition)
            if number % 3 == 2:
                made.abort_transaction(60)
                outcomes[number] = "aborted"
            else:
                made.commit_transaction(60)
                outcomes[number] = "committed"
        except KafkaException as e:
            outcomes[number] = "unknown"
            if e.args[0].txn_requires_abort():
                made.abort_transaction(60)
                outcomes[number] = "aborted"
            else:
                made = producer(cluster, "t")
