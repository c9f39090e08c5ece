"""Transactions of librdkafka for tests: committed, aborted, or left open."""

from confluent_kafka import Producer

WITHIN_S = 60.0


def begun(bootstrap: str, name: str, topic: str, partitions: int = 1) -> Producer:
    """A producer with a transaction of five records in each partition, all flushed."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{name}"})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    for partition in range(partitions):
        for number in range(5):
            producer.produce(topic, f"{name}{number}".encode(), partition=partition)
    assert producer.flush(WITHIN_S) == 0
    return producer


def commit_abort_commit(bootstrap: str, topic: str) -> None:
    """Three transactions of five records each, of which the second is aborted."""
    begun(bootstrap, "a", topic).commit_transaction(WITHIN_S)
    begun(bootstrap, "b", topic).abort_transaction(WITHIN_S)
    begun(bootstrap, "c", topic).commit_transaction(WITHIN_S)
