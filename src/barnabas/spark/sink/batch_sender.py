"""Sends whole batches to the leaders of their partitions, each exactly once whatever fails between.

Batches carry the numbers of an idempotent producer, so a broker appends none twice and none after
a gap. At most five of a partition are on their way, which is as many as a broker remembers: after a
lost connection or a change of leaders all that are unanswered are sent again, in order, and those
which had arrived are answered with the offsets they got then.
"""

import threading
from collections import deque
from collections.abc import Callable
from struct import Struct
from types import TracebackType
from typing import Final, NamedTuple, Self

from barnabas.base.clock import machine_stopwatch
from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.spark.blocking_connection import Connection, connect
from barnabas.spark.sink.batch_produce import Malformed, read_produced, write_produce
from barnabas.spark.source.source_options import SourceOptions, TopicPartition
from barnabas.spark.spark_cluster import Cluster, Topic, Unsettled
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.records.batch import set_crc

MOST_IN_FLIGHT: Final = 5
_REQUEST_TIMEOUT_MS: Final = 30_000
_PAUSE_S: Final = 0.1
_NS_PER_MS: Final = 1_000_000
_PRODUCER_AT: Final = 43
_PRODUCER = Struct(">qhi")
_SEQUENCE_MASK: Final = 0x7FFFFFFF

# What passes: elections, brokers that start, replicas that catch up.
_SOON: Final = frozenset(
    int(code)
    for code in (
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
    )
)
_DUPLICATE: Final = int(ErrorCode.duplicate_sequence_number)
_OUT_OF_SEQUENCE: Final = int(ErrorCode.out_of_order_sequence_number)
_WHY: Final = {
    int(ErrorCode.message_too_large): "a record is larger than the topic's max.message.bytes",
    int(ErrorCode.record_list_too_large): "a batch is larger than the topic's segment.bytes",
    int(ErrorCode.topic_authorization_failed): "writing to it is not allowed",
    int(ErrorCode.out_of_order_sequence_number): (
        "it lacks what was written before, since it was truncated, or another process writes the"
        " same; see that one driver alone runs the query [OUT_OF_ORDER_SEQUENCE_NUMBER]"
    ),
    int(ErrorCode.invalid_record): "it is compacted, and a record has no key",
}

OnAppended = Callable[[int], None]


class WriteFailed(SparkFailure):
    """Records could not be written; the message says where to and why."""


class OutOfSequence(WriteFailed):
    """A partition does not have the number before the one it was sent."""

    def __init__(self, partition: TopicPartition, message: str) -> None:
        super().__init__(message)
        self.partition = partition


class ProducerId(NamedTuple):
    """Who numbers the batches, as a broker gave it out."""

    number: int
    epoch: int


def numbered(batch: bytearray, producer: ProducerId, base_sequence: int) -> bytearray:
    """The same batch, as the producer's at that place of a partition; sets its CRC."""
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer.number, producer.epoch, base_sequence)
    set_crc(batch)
    return batch


def next_sequence(base_sequence: int, count: int) -> int:
    """After 2^31-1 comes 0."""
    return (base_sequence + count) & _SEQUENCE_MASK


class _Waiting(NamedTuple):
    """A batch that is not answered yet."""

    partition: TopicPartition
    batch: bytes | bytearray
    on_appended: OnAppended | None


class Sender:
    """The way to the partitions of one cluster; `flush` before it is left."""

    def __init__(self, options: SourceOptions, *, acks: int = -1) -> None:
        self._options = options
        self._acks = acks
        self._timeout_ms = options.property_number("request.timeout.ms", _REQUEST_TIMEOUT_MS)
        self._patience_ns = options.property_number("delivery.timeout.ms", 120_000) * _NS_PER_MS
        self._topics: dict[str, Topic] = {}
        self._connections: dict[tuple[str, int], Connection] = {}
        self._waiting: dict[tuple[str, int], deque[_Waiting]] = {}
        self._last_progress = machine_stopwatch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None
    ) -> None:
        self._disconnect()

    def send(
        self,
        partition: TopicPartition,
        batch: bytes | bytearray,
        on_appended: OnAppended | None = None,
    ) -> None:
        """Send a numbered batch; `on_appended` is told its offset, at the latest by `flush`.

        Raises  WriteFailed, if it or one before it cannot be written
        """
        if not any(self._waiting.values()):
            self._last_progress = machine_stopwatch()  # nothing was waited for
        waiting = _Waiting(partition, batch, on_appended)
        try:
            address = self._address(partition)
            queue = self._waiting.setdefault(address, deque())
            while len(queue) >= MOST_IN_FLIGHT:
                self._receive(address)
            queue.append(waiting)
            self._transmit(address, waiting)
        except (PeerGone, Unsettled, Malformed) as failure:
            held = self._held()
            self._send_again(held or [waiting], str(failure))
            if held and waiting not in held:
                self.flush()  # with one more on their way a broker might have forgotten the first
                self.send(*waiting)

    def flush(self) -> None:
        """Return when every batch is in the log, as `acks` wants it. Raises WriteFailed."""
        while any(self._waiting.values()):
            try:
                for address, queue in self._waiting.items():
                    while queue:
                        self._receive(address)
            except (PeerGone, Unsettled, Malformed) as failure:
                self._send_again(self._held(), str(failure))

    def _held(self) -> list[_Waiting]:
        """All that is unanswered, in the order of each partition."""
        return [each for queue in self._waiting.values() for each in queue]

    # -- one attempt ---------------------------------------------------------

    def _address(self, partition: TopicPartition) -> tuple[str, int]:
        topic = self._topics.get(partition.topic)
        if topic is None:
            with Cluster(self._options) as cluster:
                topic = cluster.topics((partition.topic,)).get(partition.topic)
            if topic is None:
                raise Unsettled(f"there is no topic {partition.topic}")
            self._topics[partition.topic] = topic
        leader = topic.leaders.get(partition.partition)
        if leader is None:
            raise Unsettled("nobody leads it; brokers that hold it are down")
        return leader.host, leader.port

    def _transmit(self, address: tuple[str, int], waiting: _Waiting) -> None:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = connect(*address, self._options)
        (topic, number), batch, _ = waiting
        connection.send(write_produce(topic, number, batch, self._acks, self._timeout_ms))

    def _receive(self, address: tuple[str, int]) -> None:
        """Take the next answer of this broker, which is to the batch sent longest ago."""
        produced = read_produced(self._connections[address].receive())
        waiting = self._waiting[address][0]
        if produced.error in _SOON:
            raise Unsettled(ErrorCode(produced.error).name.replace("_", " "))
        if produced.error not in (0, _DUPLICATE):
            why = _WHY.get(produced.error) or _name(produced.error)
            told = f"records could not be written to {waiting.partition}: {why}"
            if produced.error == _OUT_OF_SEQUENCE:
                raise OutOfSequence(waiting.partition, told)
            raise WriteFailed(told)
        self._waiting[address].popleft()
        self._last_progress = machine_stopwatch()
        if waiting.on_appended is not None:
            waiting.on_appended(produced.base_offset)

    # -- what goes wrong -----------------------------------------------------

    def _send_again(self, held: list[_Waiting], why: str) -> None:
        """Send all that is unanswered once more, in order, wherever its leaders are now."""
        while True:
            self._disconnect()
            if machine_stopwatch() - self._last_progress > self._patience_ns:
                raise WriteFailed(
                    f"records could not be written to {held[0].partition}: {why}; see whether its"
                    " brokers run, and which of them are in kafka.bootstrap.servers"
                )
            threading.Event().wait(_PAUSE_S)
            try:
                for waiting in held:
                    address = self._address(waiting.partition)
                    self._waiting.setdefault(address, deque()).append(waiting)
                    self._transmit(address, waiting)
                return
            except (PeerGone, Unsettled) as failure:
                why = str(failure)

    def _disconnect(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._waiting.clear()
        self._topics.clear()


def _name(code: int) -> str:
    return f"{ErrorCode(code).name.replace('_', ' ')} [{ErrorCode(code).name.upper()}]"
