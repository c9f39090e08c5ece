"""A shard of transactions with a log that commits, fails or waits as a test says."""

from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.coordinator.result import CoordinatorRecord, CoordinatorResult, Emit, Now
from barnabas.transactions.shard import TransactionCoordinatorShard
from barnabas.transactions.transaction_messages import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    Producer,
    ProducerReply,
    TransactionSettings,
    WriteMarkers,
)
from barnabas.transactions.transaction_metadata import TransactionMetadata

ID = "payments"
SETTINGS = TransactionSettings(
    max_timeout_ms=900_000,
    expiration_ms=604_800_000,
    abort_interval_ms=10_000,
    expire_interval_ms=3_600_000,
)
ORDERS = TopicPartition("orders", 0)
STOCK = TopicPartition("stock", 3)


class Driver:
    """Performs decisions as the runtime does: nothing is applied before it is committed."""

    def __init__(self, version: int = 0, settings: TransactionSettings = SETTINGS) -> None:
        self.version = version
        self.settings = settings
        self.now_ms = 1_000_000
        self.epoch = 0
        self.log: list[CoordinatorRecord] = []
        self.markers: list[WriteMarkers] = []
        self.fails: ErrorCode | None = None
        self._next_producer_id = 4000
        self.shard = self._new()

    def _new(self) -> TransactionCoordinatorShard:
        return TransactionCoordinatorShard(self.epoch, self.settings, lambda: self.version)

    def now(self) -> Now:
        return Now(self.now_ms, float(self.now_ms))

    def fail_over(self) -> None:
        """Another coordinator loads the log."""
        self.epoch += 1
        self.markers.clear()
        self.shard = self._new()
        for record in self.log:
            self.shard.replay(record)
        self.settle(self.shard.on_loaded(self.now()))

    def settle(self, result: CoordinatorResult[Any]) -> ProducerReply:
        """Commit the records of a result, or fail to, as `fails` says."""
        if result.records and self.fails is not None:
            result = self.shard.on_append_failed(result, self.fails, self.now())
        self.log += result.records
        for record in result.records:
            self.shard.replay(record)
        for effect in result.effects:
            if isinstance(effect, Emit):
                assert isinstance(effect.event, WriteMarkers)
                self.markers.append(effect.event)
        reply = result.reply
        return reply if isinstance(reply, ProducerReply) else ProducerReply()

    def new_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # -- requests ------------------------------------------------------------

    def init(self, expected: Producer | None = None, timeout_ms: int = 60_000) -> ProducerReply:
        request = InitProducer(ID, timeout_ms, expected or Producer())
        reply = self.settle(self.shard.init(request, self.now()))
        if reply.needs_producer_id:
            return self.settle(self.shard.init(request, self.now(), self.new_producer_id()))
        return reply

    def begun(self) -> Producer:
        """A producer that was initialised."""
        reply = self.init()
        assert reply.error is ErrorCode.none
        return reply.producer

    def add(self, producer: Producer, *partitions: TopicPartition) -> ErrorCode:
        request = AddPartitions(ID, producer, frozenset(partitions or (ORDERS,)), self.version)
        return self.settle(self.shard.add(request, self.now())).error

    def verify(self, producer: Producer, *partitions: TopicPartition) -> list[ErrorCode]:
        """The codes in the order of the partitions."""
        codes = self.shard.verify(AddPartitions(ID, producer, frozenset(partitions)))
        return [codes[each] for each in partitions]

    def end(
        self, producer: Producer, is_commit: bool = True, version: int | None = None
    ) -> ProducerReply:
        of = self.version if version is None else version
        request = EndTransaction(ID, producer, is_commit, of)
        reply = self.settle(self.shard.end(request, self.now()))
        if reply.needs_producer_id:
            return self.settle(self.shard.end(request, self.now(), self.new_producer_id()))
        return reply

    def complete(self) -> ErrorCode:
        """All markers that wait are written."""
        error = ErrorCode.none
        for event in self.markers:
            complete = self.shard.complete(event.metadata, event.coordinator_epoch, self.now())
            error = self.settle(complete).error
        self.markers.clear()
        return error

    def metadata(self) -> TransactionMetadata:
        metadata = self.shard.get(ID)
        assert metadata is not None
        return metadata

    def put(self, metadata: TransactionMetadata) -> None:
        self.shard._put(metadata)
