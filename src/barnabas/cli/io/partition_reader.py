"""Reads some partitions from chosen offsets on, to where they ended at the start or for ever."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from barnabas.cli.client import (
    Cluster,
    await_leaders,
    check_partitions,
    fail,
    find_topic,
    without_leader,
)
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.io.start_positions import Kind, Positions, start_offset

_SETTINGS: Final[Mapping[str, object]] = {
    # The client insists on a group's name; partitions are assigned, so no group comes to be.
    "group.id": "barnabas-consume",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    # Damage on the way or on the broker's disk is to be an error, never something to print.
    "check.crcs": True,
}
_TIMEOUT_S: Final = 10.0
_ATTEMPTS: Final = 50
# What a leader says that was elected a moment ago.
_NOT_YET: Final = (
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
_BATCH: Final = 1000
_WAIT_S: Final = 0.5
_PATIENCE: Final = 10  # waits without a message, while no broker is there, before giving up


class Range(NamedTuple):
    """The offsets [start, stop) of one partition; without a stop, all that will ever come."""

    start: int
    stop: int | None


class Reader:
    """The messages of some partitions of one topic, in the order of each partition."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: list[int],
        positions: Positions,
        follow: bool,
    ) -> None:
        """Reach the topic and find its offsets; nothing is read yet.

        Raises  CommandFailed if topic, partition, its leader or offset is not there
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
        """Messages as they arrive, some at a time; ends when every range has been read."""
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
                # What came before an error was read well.
                if wanted:
                    yield wanted

    def _receive(self) -> list[Message]:
        """What is there; waits for a first message, never for more of them."""
        first = self._consumer.poll(_WAIT_S)
        return [] if first is None else [first, *self._consumer.consume(_BATCH, 0)]

    def close(self) -> None:
        self._consumer.close()

    def _is_wanted(self, message: Message) -> bool:
        """Whether the message lies in its partition's range, which ends once it is passed."""
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
            # The end may come before `stop`: the last offsets can be markers, or compacted away.
            if not self._follow:
                self._open.pop(partition, None)
        elif error.fatal() or not error.retriable():
            fail(error, f"{self._topic} [{partition}]")

    def _check_cluster(self) -> None:
        if self._follow:
            return
        if self._cluster.is_down:
            raise CommandFailed(
                f"the brokers at {self._cluster.bootstrap} went away before all was read"
            )
        with suppress(KafkaException):  # no answer: another look will tell
            metadata = self._consumer.list_topics(self._topic, timeout=_WAIT_S)
            missing = without_leader(metadata, self._topic, self._open)
            if missing:
                raise CommandFailed(f"{missing}, and not all was read")


def _find_ranges(
    consumer: Consumer, topic: str, partitions: list[int], positions: Positions, follow: bool
) -> dict[int, Range]:
    """The range of each partition that has, or may get, something to read."""
    since = _find_times(consumer, topic, partitions, positions)
    ranges: dict[int, Range] = {}
    for partition in partitions:
        name = f"{topic} [{partition}]"
        earliest, latest = _watermarks(consumer, topic, partition, name)
        start = start_offset(positions.start, name, earliest, latest, since.get(partition))
        if follow or start < latest:
            ranges[partition] = Range(start, None if follow else latest)
    return ranges


def _watermarks(consumer: Consumer, topic: str, partition: int, name: str) -> tuple[int, int]:
    """Where a partition begins and ends; a leader that is new to it may need a moment to know."""
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
        raise CommandFailed(f"{name}: the broker did not tell its offsets")
    return found


def _find_times(
    consumer: Consumer, topic: str, partitions: list[int], positions: Positions
) -> dict[int, int]:
    """Where the time to begin at is first reached, for the partitions that reach it."""
    if positions.start.kind is not Kind.SINCE:
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
