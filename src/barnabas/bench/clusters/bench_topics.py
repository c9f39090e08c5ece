"""Topic creation and log end offsets of a broker under test, by a real client."""

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PATIENCE_S = 20.0
MADE_WITHIN_S = 60.0  # thousands of partitions


def client_settings(bootstrap: str, **settings: Any) -> dict[str, Any]:
    # No client logs: brokers are stopped on purpose, and failures are raised.
    return {"bootstrap.servers": bootstrap, "log_level": 0, **settings}


def create_topic(
    bootstrap: str, name: str, partitions: int, replicas: Sequence[int] = (0,)
) -> None:
    """Create a topic with every partition on these brokers; the first is the leader."""
    create_topics(bootstrap, {name: [list(replicas)] * partitions})


def create_topics(bootstrap: str, assignments: Mapping[str, list[list[int]]]) -> None:
    """Create topics with the given brokers per partition, in one request."""
    admin = AdminClient(client_settings(bootstrap))
    topics = [
        NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment)
        for name, assignment in assignments.items()
    ]
    made = admin.create_topics(
        topics, operation_timeout=MADE_WITHIN_S, request_timeout=MADE_WITHIN_S
    )
    for created in made.values():
        created.result(MADE_WITHIN_S)


def delete_topic(bootstrap: str, name: str, **login: str) -> None:
    admin = AdminClient(client_settings(bootstrap, **login))
    for deleted in admin.delete_topics([name], operation_timeout=PATIENCE_S).values():
        deleted.result(PATIENCE_S)


def log_end_offset(bootstrap: str, topic: str, partitions: int, **login: str) -> int:
    """The number of records of a topic without deletions: the sum of its log end offsets."""
    consumer = Consumer(client_settings(bootstrap, **login, **{"group.id": "bench"}))
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=PATIENCE_S)[1]
            for n in range(partitions)
        )
    finally:
        consumer.close()
