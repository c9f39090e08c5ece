"""The faults of transactions: one that hangs, delayed markers, a coordinator killed in a phase."""

from threading import Thread

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.testing import Cluster, Misuse, NotInTime
from tests.support.waiting import until


def values(kafka: Cluster, isolation: str = "read_committed") -> list[bytes]:
    """The values that a consumer gets from the start of the topic, up to where it may read now."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "g",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("payments", 0, 0)])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append(message.value() or b"")
    consumer.close()
    return found


def begun(kafka: Cluster) -> Producer:
    """A producer with a record in an open transaction."""
    kafka.create_topic("payments")
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "till"}
    producer = Producer({**settings, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("payments", "paid", partition=0)
    assert producer.flush(30) == 0
    return producer


def test_a_hanging_transaction_stops_readers_of_committed_records_only(kafka: Cluster) -> None:
    producer = begun(kafka)
    producer.commit_transaction(30)
    until(lambda: values(kafka) == [b"paid"], "the payment")
    assert kafka.hang_transaction("payments") == 2, "after the record and its marker"
    plain = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    plain.produce("payments", "behind it", partition=0)
    assert plain.flush(30) == 0
    assert values(kafka) == [b"paid"]
    assert values(kafka, "read_uncommitted") == [b"paid", b"hanging", b"behind it"]


def test_delayed_markers_delay_what_readers_see_and_not_the_commit(kafka: Cluster) -> None:
    producer = begun(kafka)
    kafka.delay_markers(1_000)
    producer.commit_transaction(30)
    assert values(kafka) == []
    until(lambda: values(kafka) == [b"paid"], "the marker")
    kafka.delay_markers(0)
    with pytest.raises(Misuse, match="-1 ms is negative"):
        kafka.delay_markers(-1)


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "CompleteCommit"])
def test_a_transaction_survives_its_coordinator_in_every_phase(
    kafka_cluster: Cluster, state: str
) -> None:
    producer = begun(kafka_cluster)
    ending = Thread(target=producer.commit_transaction, args=(30,))
    if state != "Ongoing":
        ending.start()
    killed = kafka_cluster.kill_coordinator("till", state)
    if state == "Ongoing":
        ending.start()
    ending.join()
    assert killed not in kafka_cluster.running
    until(lambda: values(kafka_cluster) == [b"paid"], "the payment")


def test_a_phase_that_does_not_come_kills_nobody(kafka: Cluster) -> None:
    with pytest.raises(NotInTime, match=r"nobody is not PrepareAbort within 0\.1 s"):
        kafka.kill_coordinator("nobody", "PrepareAbort", timeout=0.1)
    assert kafka.running == (0,)
    with pytest.raises(Misuse, match="there is no state Done of a transaction"):
        kafka.kill_coordinator("till", "Done")
