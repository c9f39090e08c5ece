"""A producer for one topic with bounded memory, which counts delivered messages."""

import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message

from barnabas.base.clock import Clock
from barnabas.cli.client import (
    ClusterClients,
    admin,
    await_all,
    await_leaders,
    check_partitions,
    explain,
    fail,
    find_topic,
    without_leader,
)
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.show import counted

_SETTINGS: Final[dict[str, object]] = {
    # The Java client's partitioner: both put the same key into the same partition.
    "partitioner": "murmur2_random",
    "queue.buffering.max.kbytes": 65536,
    "message.timeout.ms": 30_000,
}
# An idempotent producer that may write to no topic at all is refused by the cluster.
_NOT_ALLOWED: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_WAIT_S: Final = 0.1
_PROGRESS_MS: Final = 1000


class MessageSettings(NamedTuple):
    """Key, headers, partition and timestamp of the messages to send."""

    key: bytes | None
    key_delimiter: bytes | None
    headers: list[tuple[str, bytes]]
    partition: int
    timestamp_ms: int
    empty_is_null: bool

    def split(self, payload: bytes) -> tuple[bytes | None, bytes | None]:
        """Key and value of a payload; one without the key delimiter is all value."""
        key: bytes | None = self.key
        value: bytes | None = payload
        if self.key_delimiter is not None and self.key_delimiter in payload:
            key, _, value = payload.partition(self.key_delimiter)
        if self.empty_is_null:
            return key or self.key, value or None
        return key, value


class Delivered(NamedTuple):
    """Messages delivered to one partition and their offsets (-1 without acks)."""

    messages: int
    first_offset: int
    last_offset: int


class MessageSender:
    """A producer for one topic. `send` blocks while 64 MiB are buffered."""

    def __init__(
        self,
        cluster: ClusterClients,
        topic: str,
        shape: MessageSettings,
        codec: str,
        acks: str,
        create: bool,
    ) -> None:
        """Connect and look up the topic.

        Raises  CommandFailed if the topic or the partition does not exist or has no leader
        """
        self._cluster = cluster
        self._topic = topic
        self._shape = shape
        self._producer, metadata = cluster.producer(
            {
                **_SETTINGS,
                "acks": acks,
                "compression.type": codec,
                **({"enable.idempotence": True} if acks == "all" else {}),
            }
        )
        if topic in metadata.topics or not create:
            remedy = f"; create it with `barnabas topics create {topic}` or --create"
            found = find_topic(metadata, topic, remedy)
            chosen = check_partitions(found, [] if shape.partition < 0 else [shape.partition])
            # If some partitions have leaders, messages may go to those.
            if all(without_leader(metadata, topic, [each]) for each in chosen):
                await_leaders(self._producer, metadata, topic, chosen)
        self.sent = 0
        self.failed = 0
        self._delivered: dict[int, Delivered] = {}
        self._first_error: KafkaError | None = None
        self._lacked_key = False
        self._is_fatal = False
        self._undelivered: set[int] = set()
        self._shown_ms = 0

    def send(self, payload: bytes) -> None:
        """Queue one message. Raises CommandFailed if it can never be sent."""
        key, value = self._shape.split(payload)
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    key,
                    self._shape.partition,
                    on_delivery=self._on_delivery,
                    timestamp=self._shape.timestamp_ms,
                    headers=list(self._shape.headers),
                )
                break
            except BufferError:
                self._serve(self._producer.poll, _WAIT_S)
            except KafkaException as failure:
                self._refuse(failure.args[0], len(payload))
        self.sent += 1
        self._serve(self._producer.poll, 0)

    def finish(self) -> None:
        """Wait until every message is delivered or has failed (after message.timeout.ms)."""
        while not self._is_fatal and self._serve(self._producer.flush, _WAIT_S):
            pass

    def _serve(self, call: Callable[[float], int], seconds: float) -> int:
        """Run delivery callbacks; after a fatal error no message is delivered any more."""
        try:
            return call(seconds)
        except KafkaException as failure:
            delivered = sum(each.messages for each in self._delivered.values())
            self._is_fatal = True
            self._first_error = self._first_error or failure.args[0]
            self.failed = self.sent - delivered
            return 0

    def report(self) -> str:
        delivered = sum(each.messages for each in self._delivered.values())
        text = f"{counted(delivered, 'message')} delivered to {self._topic}"
        if self._first_error is not None:
            text += f", {self.failed} failed: {explain(self._first_error)}"
        return text

    def hint(self) -> str:
        """A remedy for the first failure, to append to the error; empty if none is known."""
        error = self._first_error
        if error is not None and error.code() == KafkaError._MSG_TIMED_OUT:
            return self._hint_at_leaders()
        if error is not None and error.code() in _NOT_ALLOWED:
            return self._hint_at_rights()
        if error is None or error.code() != KafkaError.INVALID_RECORD or not self._lacked_key:
            return ""
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, self._topic)
        try:
            client, _ = self._cluster.admin()
            (configs,) = await_all(client.describe_configs([resource]))
        except CommandFailed:
            return ""
        if "compact" not in (configs["cleanup.policy"].value or ""):
            return ""
        return f"; topic {self._topic} is compacted: every message needs a key (-k or -K)"

    def _hint_at_rights(self) -> str:
        of_the_topic = f"--principal User:NAME --operation write --topic {self._topic}"
        return (
            f"; the user may not WRITE to topic {self._topic}: `barnabas acls explain"
            f" {of_the_topic}` says why, and `barnabas acls add --allow User:NAME --operation write"
            f" --topic {self._topic}` allows it"
        )

    def _hint_at_leaders(self) -> str:
        try:
            _, metadata = self._cluster.admin()
            find_topic(metadata, self._topic)
        except CommandFailed:
            return ""
        missing = without_leader(metadata, self._topic, sorted(self._undelivered))
        return f"; {missing}" if missing else ""

    def summary(self) -> dict[str, Any]:
        return {
            "topic": self._topic,
            "delivered": sum(each.messages for each in self._delivered.values()),
            "failed": self.failed,
            "error": explain(self._first_error) if self._first_error else None,
            "partitions": [
                {"partition": partition, **delivered._asdict()}
                for partition, delivered in sorted(self._delivered.items())
            ],
        }

    def show_progress(self, clock: Clock) -> None:
        """Print progress on stderr, once a second."""
        if clock.now_ms() - self._shown_ms >= _PROGRESS_MS:
            if self._shown_ms:
                print(f"\r\x1b[K{self.report()} ...", end="", file=sys.stderr, flush=True)
            self._shown_ms = clock.now_ms()

    def _refuse(self, error: KafkaError, size: int) -> None:
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            raise CommandFailed(
                f"message {self.sent + 1} of {size} bytes is too large; raise"
                " -X message.max.bytes=BYTES and the topic's max.message.bytes"
            )
        fail(error, f"message {self.sent + 1}")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            self._first_error = self._first_error or error
            self._lacked_key |= message.key() is None
            self._undelivered.add(message.partition() or 0)
            return
        partition, offset = message.partition() or 0, message.offset()
        offset = -1 if offset is None else offset
        known = self._delivered.get(partition)
        self._delivered[partition] = Delivered(
            known.messages + 1 if known else 1,
            known.first_offset if known else offset,
            offset,
        )
