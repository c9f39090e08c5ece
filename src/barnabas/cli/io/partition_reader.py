"""A consumer of assigned partitions, from given offsets to the current end, or forever."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from barnabas.cli.client import (
    ClusterClients,
    await_leaders,
    check_partitions,
    fail,
    find_topic,
    without_leader,
)
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.io.start_positions import Positions, StartKind, start_offset

_SETTINGS: Final[Mapping[str, object]] = {
    # The client requires a group id; no group is created, since partitions are assigned.
    "group.id": "barnabas-consume",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    # Corruption on the network or on the broker's disk is an error, never printed.
    "check.crcs": True,
}
_TIMEOUT_S: Final = 10.0
_ATTEMPTS: Final = 50
# Errors of a leader that was elected a moment ago.
_NOT_YET: Final = (
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
_BATCH: Final = 1000
_WAIT_S: Final = 0.5
_PATIENCE: Final = 10  # polls without a message before checking that the cluster is up


class ReadRange(NamedTuple):
    """The offsets [start, stop) of one partition; unbounded if `stop` is None."""

    start: int
    stop: int | None


class PartitionReader:
    """Reads some partitions of one topic, each in order."""

    def __init__(
        self,
        cluster: ClusterClients,
        topic: str,
        partitions: list[int],
        positions: Positions,
        follow: bool,
    ) -> None:
        """Connect and look up the offsets; reads no messages yet.

        Raises  CommandFailed if topic, partition or offset does not exist, or has no leader
        """
        self._cluster = cluster
        self._topic = topic
        self._until_ms = positions.until_ms
        self._follow = follow
        self._consumer, metadata = cluster.consumer(_SETTINGS)
        chosen = check_partitions(find_topic(metadata, topic), partitions)
        await_leaders(self._consumer, metadata, topic, chosen)
        self._open = _find_ranges(self._consumer, topic, chosen, positions, follow)

    def batches(self) -> Iterator[list[Message]]:
        """Yield messages as they arrive, until every range has been read."""
        partitions = [
            TopicPartition(self._topic, partition, span.start)
            for partition, span in self._open.items()
        ]
        self._consumer.assign(partitions)
        idle = 0
        while self._open:
            received = self._receive()
            idle = 0 if received else idle + 1
            if idle >= _PATIENCE:
                self._check_cluster()
                idle = 0
            wanted: list[Message] = []
            try:
                wanted.extend(message for message in received if self._is_wanted(message))
            finally:
                # Messages before an error are valid.
                if wanted:
                    yield wanted

    def _receive(self) -> list[Message]:
        """Wait for a first message; return it with all others already received."""
        first = self._consumer.poll(_WAIT_S)
        return [] if first is None else [first, *self._consumer.consume(_BATCH, 0)]

    def close(self) -> None:
        self._consumer.close()

    def _is_wanted(self, message: Message) -> bool:
        """True if the message is in its partition's range; closes a range at its end."""
        partition, offset = message.partition() or 0, message.offset() or 0
        span = self._open.get(partition)
        error = message.error()
        if error is not None:
            self._on_event(error, partition)
            return False
        if span is None:
            return False
        too_late = self._until_ms is not None and message.timestamp()[1] >= self._until_ms
        if too_late or (span.stop is not None and offset + 1 >= span.stop):
            del self._open[partition]
        return not too_late and (span.stop is None or offset < span.stop)

    def _on_event(self, error: KafkaError, partition: int) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            # The end may come before `stop`: the last offsets may be control records or compacted.
            if not self._follow:
                self._open.pop(partition, None)
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            pass  # librdkafka looks for the coordinator of its group.id, though it reads without
        elif error.fatal() or not error.retriable():
            fail(error, f"{self._topic} [{partition}]")

    def _check_cluster(self) -> None:
        if self._follow:
            return
        if self._cluster.is_down:
            raise CommandFailed(
                f"lost connection to the brokers at {self._cluster.bootstrap} before the end"
            )
        with suppress(KafkaException):  # no answer: checked again later
            metadata = self._consumer.list_topics(self._topic, timeout=_WAIT_S)
            missing = without_leader(metadata, self._topic, self._open)
            if missing:
                raise CommandFailed(f"{missing}; stopped before the end")


def _find_ranges(
    consumer: Consumer, topic: str, partitions: list[int], positions: Positions, follow: bool
) -> dict[int, ReadRange]:
    """The range of each partition that has messages to read, or may get some."""
    since = _find_times(consumer, topic, partitions, positions)
    ranges: dict[int, ReadRange] = {}
    for partition in partitions:
        name = f"{topic} [{partition}]"
        earliest, latest = _watermarks(consumer, topic, partition, name)
        start = start_offset(positions.start, name, earliest, latest, since.get(partition))
        if follow or start < latest:
            ranges[partition] = ReadRange(start, None if follow else latest)
    return ranges


def _watermarks(consumer: Consumer, topic: str, partition: int, name: str) -> tuple[int, int]:
    """Log start and end offset of a partition; retries while its leader is new."""
    for attempt in count(1):
        try:
            found = consumer.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT_S)
        except KafkaException as failure:
            error = failure.args[0]
            if error.code() not in _NOT_YET or attempt == _ATTEMPTS:
                fail(error, name)
            consumer.poll(_TIMEOUT_S / _ATTEMPTS)
        else:
            break
    if found is None:
        raise CommandFailed(f"{name}: the broker did not return the offsets")
    return found


def _find_times(
    consumer: Consumer, topic: str, partitions: list[int], positions: Positions
) -> dict[int, int]:
    """The offset of the first message at or after the start time, by partition."""
    if positions.start.kind is not StartKind.SINCE:
        return {}
    asked = [TopicPartition(topic, partition, positions.start.value) for partition in partitions]
    try:
        found = consumer.offsets_for_times(asked, _TIMEOUT_S)
    except KafkaException as failure:
        fail(failure.args[0], topic)
    for each in found:
        if each.error is not None:
            fail(each.error, f"{topic} [{each.partition}]")
    return {each.partition: each.offset for each in found if each.offset >= 0}
