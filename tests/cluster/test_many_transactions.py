"""Many transactions, many partitions, the end of all brokers at once; with Kafka's defaults."""

import threading
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

import barnabas.testing
from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.cluster.operations import create
from tests.support.asking import ask
from tests.support.cluster import Cluster
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PATIENCE_S = 90.0


def producer(bootstrap: str, name: str, timeout_ms: int = 120_000) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    made.init_transactions(PATIENCE_S)
    return made


def begin(made: Producer, topic: str, value: str, partitions: int) -> None:
    """One record in each partition, acknowledged."""
    made.begin_transaction()
    for partition in range(partitions):
        made.produce(topic, value, partition=partition)
    assert made.flush(PATIENCE_S) == 0


def committed(bootstrap: str, topic: str, partitions: int) -> list[Counter[str]]:
    """How often each value is seen in each partition, up to the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
    seen: list[Counter[str]] = [Counter() for _ in range(partitions)]
    left = set(range(partitions))
    while left:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "the consumer is stuck"
        if message.error():
            left.discard(message.partition() or 0)
        else:
            seen[message.partition() or 0][(message.value() or b"").decode()] += 1
    consumer.close()
    return seen


def ends_as(bootstrap: str, topic: str, partitions: int, values: list[str]) -> None:
    wanted = [Counter(values)] * partitions
    until(lambda: committed(bootstrap, topic, partitions) == wanted, f"{values}", PATIENCE_S)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_open_transactions_outlive_the_end_of_all_brokers(
    fresh_cluster: Callable[..., Cluster], how: str
) -> None:
    """Each is committed, aborted or taken over afterwards, or it times out."""
    partitions, each = 6, 5
    cluster = fresh_cluster("transaction.abort.timed.out.transaction.cleanup.interval.ms=500")
    cluster.start()
    cluster.wait_settled()
    create(cluster, "orders", partitions)
    fates = ("commit", "abort", "take over", "time out")
    made = {
        (fate, n): producer(
            cluster.bootstrap, f"{fate}-{n}", 15_000 if fate == "time out" else 120_000
        )
        for fate in fates
        for n in range(each)
    }
    for (fate, n), one in made.items():
        begin(one, "orders", f"{fate}-{n}", partitions)
    if how == "killed":
        for broker in cluster.brokers.values():
            broker.kill()
    else:
        stopping = [threading.Thread(target=broker.stop) for broker in cluster.brokers.values()]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
    cluster.start()
    cluster.wait_settled()
    for (fate, n), one in made.items():
        if fate == "commit":
            one.commit_transaction(PATIENCE_S)
        elif fate == "abort":
            one.abort_transaction(PATIENCE_S)
        elif fate == "take over":
            successor = producer(cluster.bootstrap, f"{fate}-{n}")
            begin(successor, "orders", f"successor-{n}", partitions)
            successor.commit_transaction(PATIENCE_S)
            with pytest.raises(KafkaException):
                one.commit_transaction(PATIENCE_S)
    values = [f"{kept}-{n}" for kept in ("commit", "successor") for n in range(each)]
    ends_as(cluster.bootstrap, "orders", partitions, values)


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit"])
def test_a_transaction_across_a_hundred_partitions_is_whole_though_its_coordinator_is_killed(
    kafka_cluster: barnabas.testing.Cluster, state: str
) -> None:
    partitions, rounds = 100, 3
    kafka_cluster.create_topic("orders", partitions=partitions)
    made = producer(kafka_cluster.bootstrap_servers, "till")
    kept = []
    for number in range(rounds):
        begin(made, "orders", f"{number}", partitions)
        is_abort = state == "PrepareAbort"
        end = made.abort_transaction if is_abort else made.commit_transaction
        ending = threading.Thread(target=end, args=(PATIENCE_S,))
        if state != "Ongoing":
            ending.start()
        killed = kafka_cluster.kill_coordinator("till", state)
        if state == "Ongoing":
            ending.start()
        ending.join()
        kept += [] if is_abort else [f"{number}"]
        kafka_cluster.restart(killed)
        ends_as(kafka_cluster.bootstrap_servers, "orders", partitions, kept)


def test_an_id_that_expired_begins_again_and_its_old_producer_never_commits_half(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    partitions = 3
    cluster = fresh_cluster(
        "transactional.id.expiration.ms=2000",
        "transaction.remove.expired.transaction.cleanup.interval.ms=200",
    )
    cluster.start()
    cluster.wait_settled()
    create(cluster, "orders", partitions)
    idle = producer(cluster.bootstrap, "idle")
    begin(idle, "orders", "first", partitions)
    idle.commit_transaction(PATIENCE_S)
    until(lambda: is_forgotten(cluster, "idle"), "the expiry of the id", PATIENCE_S)
    kept = ["first"]
    try:
        begin(idle, "orders", "second", partitions)
        idle.commit_transaction(PATIENCE_S)
        kept.append("second")
    except (KafkaException, AssertionError):
        idle.purge()
    successor = producer(cluster.bootstrap, "idle")
    begin(successor, "orders", "third", partitions)
    successor.commit_transaction(PATIENCE_S)
    ends_as(cluster.bootstrap, "orders", partitions, [*kept, "third"])


def is_forgotten(cluster: Cluster, name: str) -> bool:
    """True if no broker coordinates the id."""
    for broker in cluster.running.values():
        answer = ask(
            broker.port,
            ApiKey.LIST_TRANSACTIONS,
            state_filters=(),
            producer_id_filters=(),
            duration_filter=-1,
        )
        if answer.error_code is not ErrorCode.none:
            return False
        if any(each.transactional_id == name for each in answer.transaction_states):
            return False
    return True


def test_many_ids_take_turns_and_each_transaction_is_seen_once(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    """Kafka's defaults: 50 partitions of `__transaction_state` over three brokers."""
    partitions, ids = 3, 200
    cluster = fresh_cluster()
    cluster.start()
    cluster.wait_settled()
    create(cluster, "orders", partitions)
    for number in range(ids):
        made = producer(cluster.bootstrap, f"id-{number}")
        begin(made, "orders", f"{number}", partitions)
        if number % 2:
            made.commit_transaction(PATIENCE_S)
        else:
            made.abort_transaction(PATIENCE_S)
    values = [f"{number}" for number in range(1, ids, 2)]
    ends_as(cluster.bootstrap, "orders", partitions, values)
