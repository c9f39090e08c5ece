"""The topic `_schemas`: the log of a registry, read whole at start and after each write."""

import threading
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.cli.client import ClusterClients, admin, create_topics
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.registry.registry_state import RegistryError, RegistryState

TOPIC: Final = "_schemas"
_WITHIN_S: Final = 30.0


class RegistryStore:
    """The state as of the end of the topic; one writer at a time."""

    def __init__(self, clients: ClusterClients) -> None:
        """Create the topic if it does not exist. Raises CommandFailed if no broker answers."""
        client, metadata = clients.admin()
        if TOPIC not in metadata.topics:
            compacted = {"cleanup.policy": "compact"}
            create_topics(client, [admin.NewTopic(TOPIC, 1, -1, config=compacted)])
        elif len(metadata.topics[TOPIC].partitions) != 1:
            raise CommandFailed(f"topic {TOPIC} has more than one partition; a registry needs one")
        self.state = RegistryState()
        self.lock = threading.RLock()
        self._producer: Producer = clients.producer({"acks": "all"})[0]
        self._consumer: Consumer = clients.consumer(
            {"group.id": "barnabas-registry", "enable.auto.commit": "false"}
        )[0]
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        self._next = 0
        self.refresh()

    def refresh(self) -> None:
        """Replay what others have written since. Raises RegistryError if no broker answers."""
        with self.lock:
            try:
                found = self._consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), _WITHIN_S)
            except KafkaException as error:
                raise RegistryError(50001, f"Error in the backend data store: {error}") from None
            if found is None:
                raise RegistryError(50001, "Error in the backend data store: no broker answers")
            self._read_to(found[1])

    def write(self, *records: tuple[str, str | None]) -> None:
        """Append records, and return when they are replayed. Raises RegistryError."""
        failed: list[Any] = []
        last: list[int] = []

        def on_delivery(error: Any, message: Any) -> None:
            failed.append(error) if error else last.append(message.offset())

        with self.lock:
            for key, value in records:
                self._producer.produce(TOPIC, value, key, partition=0, on_delivery=on_delivery)
            if self._producer.flush(_WITHIN_S) or failed:
                raise RegistryError(50001, f"Error in the backend data store: {failed}")
            self._read_to(max(last) + 1)

    def close(self) -> None:
        self._consumer.close()

    def _read_to(self, end: int) -> None:
        while self._next < end:
            try:
                messages = self._consumer.consume(1_000, 1.0)
            except KafkaException as error:
                raise RegistryError(50001, f"Error in the backend data store: {error}") from None
            for message in messages:
                if message.error() is None:
                    self.state.apply(message.key(), message.value())
                    self._next = int(message.offset() or 0) + 1
            position = self._consumer.position([TopicPartition(TOPIC, 0)])[0].offset
            self._next = max(self._next, position)
