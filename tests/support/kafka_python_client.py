"""The kafka-python client behind the tests' interface."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

from tests.support.clients import (
    BEGINNING,
    END,
    LONG_POLL_MS,
    MAX_REQUEST_BYTES,
    PATIENCE_S,
    SHORT_POLL_MS,
    Admin,
    Client,
    Message,
    NextMessage,
    Stored,
    refusals_of,
    stored,
)

# On import it reads its schemas through a function that Python 3.11 deprecates.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.admin
    import kafka.codec
    import kafka.errors
    import kafka.protocol.consumer

library: Any = kafka
TopicPartition: Any = library.TopicPartition
PATIENCE_MS = int(PATIENCE_S * 1000)


class KafkaPythonClient(Client):
    sends_null_headers = False

    def lacks_codec(self, codec: str) -> str | None:
        if codec == "none" or getattr(library.codec, f"has_{codec}")():
            return None
        return f"kafka-python reports that its module for {codec} is not installed"

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        producer = library.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all" if acks == "all" else int(acks),
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
            max_request_size=MAX_REQUEST_BYTES,
            linger_ms=5,
            metrics_enabled=False,
        )
        with closing(producer):
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp,
                )
                for message in messages
            ]
            producer.flush(PATIENCE_S)
            with refusals():
                sent = [future.get(PATIENCE_S) for future in futures]
        return [] if acks == "0" else [metadata.offset for metadata in sent]

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
        assigned = [TopicPartition(topic, partition) for partition in partitions]
        with closing(
            self.consumer(isolation_level=isolation, fetch_max_wait_ms=poll_ms)
        ) as consumer:
            consumer.assign(assigned)
            if start == BEGINNING:
                consumer.seek_to_beginning(*assigned)
            elif start == END:
                consumer.seek_to_end(*assigned)
                for partition in assigned:
                    consumer.position(partition)
            else:
                for partition in assigned:
                    consumer.seek(partition, start)

            def next_message() -> Stored:
                polled = consumer.poll(PATIENCE_MS, max_records=1)
                assert polled, "no message came"
                ((record,),) = polled.values()
                return stored(record)

            yield next_message

    def consumer(self, **settings: object) -> Any:
        return library.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            request_timeout_ms=LONG_POLL_MS + 10_000,
            metrics_enabled=False,
            **settings,
        )

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        wanted = TopicPartition(topic, partition)
        with closing(self.consumer()) as consumer:
            found = consumer.offsets_for_times({wanted: timestamp})[wanted]
        return None if found is None else found.offset


class KafkaPythonAdmin(Admin):
    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.client = library.KafkaAdminClient(bootstrap_servers=bootstrap)

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        with refusals():
            self.client.create_topics(
                {
                    name: {
                        "num_partitions": partitions,
                        "replication_factor": 1,
                        "configs": dict(configs or {}),
                    }
                }
            )

    def delete_topic(self, name: str) -> None:
        with refusals():
            self.client.delete_topics([name])

    def topics(self) -> list[str]:
        return list(self.client.list_topics())

    def leaders(self, name: str) -> dict[int, int]:
        (topic,) = self.client.describe_topics([name])
        return {found["partition_index"]: found["leader_id"] for found in topic["partitions"]}

    def add_partitions(self, name: str, total: int) -> None:
        with refusals():
            self.client.create_partitions({name: total})

    def configs(self, name: str) -> dict[str, str | None]:
        found = self.client.describe_configs([self.resource(name)], config_filter="all")
        return {key: entry["value"] for key, entry in found["topic"][name].items()}

    def replace_configs(self, name: str, configs: Mapping[str, str]) -> None:
        # Sent directly: the public method adds the topic's existing configs.
        altered = self.client._manager.run(
            self.client._send_alter_configs_requests, [self.resource(name, configs)]
        )
        assert altered == {"topic": {name: "OK"}}

    def delete_records(self, name: str, before: int, partition: int = 0) -> int:
        wanted = TopicPartition(name, partition)
        with refusals():
            return int(self.client.delete_records({wanted: before})[wanted]["low_watermark"])

    @staticmethod
    def resource(name: str, configs: Mapping[str, object] | None = None) -> Any:
        return library.admin.ConfigResource(library.admin.ConfigResourceType.TOPIC, name, configs)


def refusals() -> AbstractContextManager[None]:
    return refusals_of(library.errors.BrokerResponseError)
