"""Makes a topic on a broker under test, and asks how far its log goes, with a real client."""

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PATIENCE_S = 20.0
MADE_WITHIN_S = 60.0  # thousands of partitions


def client_settings(bootstrap: str, **settings: Any) -> dict[str, Any]:
    # Silent: that a broker was stopped on purpose is no news, and what fails is raised.
    return {"bootstrap.servers": bootstrap, "log_level": 0, **settings}


def create_topic(
    bootstrap: str, name: str, partitions: int, replicas: Sequence[int] = (0,)
) -> None:
    """Every partition on these brokers; the first of them leads."""
    create_topics(bootstrap, {name: [list(replicas)] * partitions})


def create_topics(bootstrap: str, assignments: Mapping[str, list[list[int]]]) -> None:
    """Topics with the brokers of each of their partitions, in one request."""
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


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient(client_settings(bootstrap))
    for deleted in admin.delete_topics([name], operation_timeout=PATIENCE_S).values():
        deleted.result(PATIENCE_S)


def log_end_offset(bootstrap: str, topic: str, partitions: int) -> int:
    """The records in a topic from which nothing was deleted: its log end offsets, added up."""
    consumer = Consumer(client_settings(bootstrap, **{"group.id": "bench"}))
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=PATIENCE_S)[1]
            for n in range(partitions)
        )
    finally:
        consumer.close()
