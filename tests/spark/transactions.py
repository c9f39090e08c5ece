"""Transactions of librdkafka for tests: committed, aborted, or left open."""

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.waiting import until

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


def commit(producer: Producer, bootstrap: str, topic: str) -> None:
    """Commit, and wait for the end marker in partition 0: the coordinator answers before."""
    before = _end(bootstrap, topic)
    producer.commit_transaction(WITHIN_S)
    _await_marker(bootstrap, topic, before)


def abort(producer: Producer, bootstrap: str, topic: str) -> None:
    """Abort, and wait for the end marker in partition 0."""
    before = _end(bootstrap, topic)
    producer.abort_transaction(WITHIN_S)
    _await_marker(bootstrap, topic, before)


def commit_abort_commit(bootstrap: str, topic: str) -> None:
    """Three transactions of five records each, of which the second is aborted."""
    commit(begun(bootstrap, "a", topic), bootstrap, topic)
    abort(begun(bootstrap, "b", topic), bootstrap, topic)
    commit(begun(bootstrap, "c", topic), bootstrap, topic)


def _await_marker(bootstrap: str, topic: str, before: int) -> None:
    until(lambda: _end(bootstrap, topic) > before, "the end marker", WITHIN_S)


def _end(bootstrap: str, topic: str) -> int:
    """The high watermark of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "ends",
            "isolation.level": "read_uncommitted",
        }
    )
    try:
        end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), WITHIN_S)[1]
    finally:
        consumer.close()
    return end
