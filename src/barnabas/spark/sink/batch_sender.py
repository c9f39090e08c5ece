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
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.frames import MalformedResponse
from barnabas.client.metadata import TopicInfo
from barnabas.client.produce import Produce, read_produce_response, write_produce_request
from barnabas.client.retries import PRODUCE_AGAIN, Address, RetriableError, error_words
from barnabas.client.versions import PORTABLE
from barnabas.spark.broker_connection import connect, security_of
from barnabas.spark.source.source_options import SourceOptions, TopicPartition
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.apis import ApiKey
from barnabas.wire.records.batch import set_crc

MOST_IN_FLIGHT: Final = 5
_REQUEST_TIMEOUT_MS: Final = 30_000
_PAUSE_S: Final = 0.1
_NS_PER_MS: Final = 1_000_000
_PRODUCER_AT: Final = 43
_PRODUCER = Struct(">qhi")
_SEQUENCE_MASK: Final = 0x7FFFFFFF

_VERSION: Final = PORTABLE[ApiKey.PRODUCE]
_WHY: Final = {
    ErrorCode.message_too_large: "a record is larger than the topic's max.message.bytes",
    ErrorCode.record_list_too_large: "a batch is larger than the topic's segment.bytes",
    ErrorCode.topic_authorization_failed: "writing to it is not allowed",
    ErrorCode.out_of_order_sequence_number: (
        "it lacks what was written before, since it was truncated, or another process writes the"
        " same; see that one driver alone runs the query [OUT_OF_ORDER_SEQUENCE_NUMBER]"
    ),
    ErrorCode.invalid_record: "it is compacted, and a record has no key",
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
    """The producer id and epoch that number the batches, as a broker allocated them."""

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

    def __init__(
        self, options: SourceOptions, *, acks: int = -1, transactional_id: str | None = None
    ) -> None:
        self._options = options
        self._acks = acks
        self._transactional_id = transactional_id
        self._timeout_ms = options.property_number("request.timeout.ms", _REQUEST_TIMEOUT_MS)
        self._patience_ns = options.property_number("delivery.timeout.ms", 120_000) * _NS_PER_MS
        self._security = security_of(options)
        self._topics: dict[str, TopicInfo] = {}
        self._connections: dict[Address, BlockingConnection] = {}
        self._waiting: dict[Address, deque[_Waiting]] = {}
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
        """Send a numbered batch; `on_appended` gets its offset, at the latest by `flush`.

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
        except (PeerGone, RetriableError, MalformedResponse) as failure:
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
            except (PeerGone, RetriableError, MalformedResponse) as failure:
                self._send_again(self._held(), str(failure))

    def _held(self) -> list[_Waiting]:
        """All that is unanswered, in the order of each partition."""
        return [each for queue in self._waiting.values() for each in queue]

    # -- one attempt ---------------------------------------------------------

    def _address(self, partition: TopicPartition) -> Address:
        topic = self._topics.get(partition.topic)
        if topic is None:
            with SparkCluster(self._options) as cluster:
                topic = cluster.topics((partition.topic,)).get(partition.topic)
            if topic is None:
                raise RetriableError(f"there is no topic {partition.topic}")
            self._topics[partition.topic] = topic
        leader = topic.leader(partition.partition)
        if leader is None:
            raise RetriableError("nobody leads it; brokers that hold it are down")
        return leader.address

    def _transmit(self, address: Address, waiting: _Waiting) -> None:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = connect(
                *address, self._options, self._security
            )
        (topic, number), batch, _ = waiting
        produce = Produce(
            topic, number, batch, self._acks, self._timeout_ms, self._transactional_id
        )
        client_id = connection.client_id
        connection.send(lambda each: write_produce_request(_VERSION, each, client_id, produce))

    def _receive(self, address: Address) -> None:
        """Receive the next response of this broker, to the batch sent longest ago."""
        produced = read_produce_response(_VERSION, self._connections[address].receive())
        waiting = self._waiting[address][0]
        if produced.error in PRODUCE_AGAIN:
            raise RetriableError(produced.error.name.replace("_", " "))
        if produced.error not in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            why = _WHY.get(produced.error) or error_words(produced.error)
            told = f"records could not be written to {waiting.partition}: {why}"
            if produced.error is ErrorCode.out_of_order_sequence_number:
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
            except (PeerGone, RetriableError) as failure:
                why = str(failure)

    def _disconnect(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._waiting.clear()
        self._topics.clear()
