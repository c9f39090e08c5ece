"""The confluent-kafka client (librdkafka) behind the tests' interface."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import confluent_kafka.admin
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.clients import (
    BEGINNING,
    MAX_REQUEST_BYTES,
    PATIENCE_S,
    SHORT_POLL_MS,
    Admin,
    Client,
    Message,
    NextMessage,
    Refused,
    Stored,
)

# The names in here are public, but not declared so for type checkers.
admin: Any = confluent_kafka.admin


class ConfluentClient(Client):
    def lacks_codec(self, codec: str) -> str | None:
        return None

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        offsets: dict[int, int] = {}
        errors: list[Any] = []

        def delivered(index: int) -> Any:
            def report(error: Any, message: Any) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    offsets[index] = message.offset()

            return report

        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "log_level": 0,
                "acks": acks,
                "compression.type": compression,
                "enable.idempotence": idempotent,
                "message.max.bytes": MAX_REQUEST_BYTES,
                "linger.ms": 5,
                "topic.metadata.refresh.interval.ms": -1,
            }
        )
        for index, message in enumerate(messages):
            producer.produce(
                topic,
                message.value,
                message.key,
                message.partition,
                on_delivery=delivered(index),
                timestamp=message.timestamp or 0,
                headers=list(message.headers),
            )
        assert producer.flush(PATIENCE_S) == 0, "not everything was acknowledged"
        if errors:
            raise refused(errors[0])
        return [] if acks == "0" else [offsets[index] for index in range(len(messages))]

    @contextmanager
    def reading(
        self,
        topic: str,
        *,
        partitions: Sequence[int] = (0,),
        start: int = BEGINNING,
        isolation: str = "read_uncommitted",
        poll_ms: int = SHORT_POLL_MS,
    ) -> Iterator[NextMessage]:
        consumer = self.consumer({"isolation.level": isolation, "fetch.wait.max.ms": poll_ms})
        # Without known leaders librdkafka would resolve "beginning" only half a second later.
        consumer.list_topics(topic, timeout=PATIENCE_S)
        consumer.assign([TopicPartition(topic, partition, start) for partition in partitions])

        def next_message() -> Stored:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "no message came"
            error = message.error()
            if error is not None:
                raise refused(error)
            return stored(message)

        try:
            yield next_message
        finally:
            consumer.close()

    def consumer(self, settings: Mapping[str, object]) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "log_level": 0,
                "group.id": "not-joined",
                "enable.auto.commit": False,
                "allow.auto.create.topics": True,
                "fetch.wait.max.ms": SHORT_POLL_MS,
                **settings,
            }
        )

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        consumer = self.consumer({})
        try:
            (found,) = consumer.offsets_for_times(
                [TopicPartition(topic, partition, timestamp)], timeout=PATIENCE_S
            )
        finally:
            consumer.close()
        return found.offset if found.offset >= 0 else None


class ConfluentAdmin(Admin):
    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.client = admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replicas: int = 1,
    ) -> None:
        topic = admin.NewTopic(name, partitions, replicas, config=dict(configs or {}))
        only_result(self.client.create_topics([topic]))

    def delete_topic(self, name: str) -> None:
        only_result(self.client.delete_topics([name]))

    def topics(self) -> list[str]:
        return list(self.client.list_topics(timeout=PATIENCE_S).topics)

    def leaders(self, name: str) -> dict[int, int]:
        topic = self.client.list_topics(name, timeout=PATIENCE_S).topics[name]
        return {number: partition.leader for number, partition in topic.partitions.items()}

    def add_partitions(self, name: str, total: int) -> None:
        only_result(self.client.create_partitions([admin.NewPartitions(name, total)]))

    def configs(self, name: str) -> dict[str, str | None]:
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, name)
        entries = only_result(self.client.describe_configs([resource]))
        return {entry.name: entry.value for entry in entries.values()}

    def replace_configs(self, name: str, configs: Mapping[str, str]) -> None:
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, name, set_config=dict(configs))
        with warnings.catch_warnings():
            # Deprecated in favour of the incremental request; this test needs the old one.
            warnings.simplefilter("ignore", DeprecationWarning)
            only_result(self.client.alter_configs([resource]))

    def delete_records(self, name: str, before: int, partition: int = 0) -> int:
        found = only_result(self.client.delete_records([TopicPartition(name, partition, before)]))
        return int(found.low_watermark)


def only_result(futures: Mapping[Any, "Future[Any]"]) -> Any:
    (future,) = futures.values()
    try:
        return future.result(PATIENCE_S)
    except KafkaException as failure:
        raise refused(failure.args[0]) from None


def refused(error: Any) -> Refused:
    return Refused(error.code(), error.str())


def stored(message: Any) -> Stored:
    kind, timestamp = message.timestamp()
    return Stored(
        message.offset(),
        Message(
            message.value(),
            message.key(),
            tuple(message.headers() or ()),
            timestamp,
            message.partition(),
        ),
        log_append_time=kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME,
    )
