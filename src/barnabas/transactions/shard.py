"""One partition of `__transaction_state`: its transactional ids, and the decisions about them.

An entry changes when its record is committed: `replay` applies it. Until then the entry has the
change as pending, and refuses others.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar, cast

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.laws import law
from barnabas.coordinator.result import (
    ArmTimer,
    CoordinatorRecord,
    CoordinatorResult,
    Effect,
    Emit,
    Now,
    TimerKey,
    failed_reply,
)
from barnabas.transactions.decide_end import decide_end
from barnabas.transactions.decide_init import decide_init
from barnabas.transactions.decide_partitions import decide_add, decide_verify
from barnabas.transactions.transaction_messages import (
    DONE,
    AddPartitions,
    Decision,
    EndTransaction,
    InitProducer,
    Producer,
    ProducerReply,
    TransactionSettings,
    WriteMarkers,
    refused,
)
from barnabas.transactions.transaction_metadata import TransactionMetadata
from barnabas.transactions.transaction_records import decode, decode_id, encode, encode_key
from barnabas.transactions.transaction_state import ENDED, OPEN, PREPARED

Reply = TypeVar("Reply")
Request = TypeVar("Request", AddPartitions, EndTransaction)

ABORT_LATE: Final[TimerKey] = ("abort late transactions",)
EXPIRE_IDS: Final[TimerKey] = ("expire transactional ids",)


class TransactionCoordinatorShard:
    """The transactional ids of one partition, in one coordinator epoch."""

    def __init__(
        self, coordinator_epoch: int, settings: TransactionSettings, version: Callable[[], int]
    ) -> None:
        """`version` is the finalized `transaction.version` of the cluster."""
        self.coordinator_epoch = coordinator_epoch
        self._settings = settings
        self._version = version
        self._metadata: dict[str, TransactionMetadata] = {}
        # The ids with an open transaction: few of many. All but the expiry of ids looks at these.
        self._open: dict[str, None] = {}
        # The change of an id that waits for its commit; None if it expires.
        self._pending: dict[str, TransactionMetadata | None] = {}

    def __len__(self) -> int:
        return len(self._metadata)

    # -- requests ------------------------------------------------------------

    def init(
        self, request: InitProducer, now: Now, new_producer_id: int | None = None
    ) -> CoordinatorResult[ProducerReply]:
        """The producer id and epoch of a producer that begins, or begins again."""
        if not 0 < request.timeout_ms <= self._settings.max_timeout_ms:
            return self._result(refused(ErrorCode.invalid_transaction_timeout))
        if request.transactional_id in self._pending:
            return self._result(refused(ErrorCode.concurrent_transactions))
        metadata = self._metadata.get(request.transactional_id)
        return self._result(
            decide_init(metadata, request, now.wall_ms, new_producer_id, self._version())
        )

    def add(self, request: AddPartitions, now: Now) -> CoordinatorResult[ProducerReply]:
        """Add partitions to the transaction of a producer, which begins with the first one."""
        entry = self._entry(request.transactional_id)
        return self._result(decide_add(*entry, self._unfenced(request), now.wall_ms))

    def verify(self, request: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """The code of each partition: none if it is in the transaction of the producer."""
        metadata = self._metadata.get(request.transactional_id)
        return decide_verify(metadata, self._unfenced(request))

    def end(
        self, request: EndTransaction, now: Now, new_producer_id: int | None = None
    ) -> CoordinatorResult[ProducerReply]:
        """Commit or abort the transaction of a producer; the markers follow the reply."""
        entry = self._entry(request.transactional_id)
        request = self._unfenced(request)
        return self._result(decide_end(*entry, request, now.wall_ms, new_producer_id))

    def _unfenced(self, request: Request) -> Request:
        """The request; that of the current producer of its id, if none is fenced."""
        metadata = self._metadata.get(request.transactional_id)
        if self._settings.fences_epochs or metadata is None:
            return request
        return request._replace(producer=Producer(metadata.producer_id, metadata.producer_epoch))

    def complete(
        self, ended: TransactionMetadata, coordinator_epoch: int, now: Now
    ) -> CoordinatorResult[ProducerReply]:
        """Every marker of a transaction is written, in this coordinator epoch.

        Nothing changes unless it is the current transaction of its id.
        """
        if coordinator_epoch != self.coordinator_epoch:
            return CoordinatorResult(ProducerReply(ErrorCode.not_coordinator))
        metadata, is_pending = self._entry(ended.transactional_id)
        if metadata is None or is_pending or metadata.state not in PREPARED:
            return CoordinatorResult(ProducerReply(ErrorCode.concurrent_transactions))
        if (metadata.producer_id, metadata.producer_epoch) != (
            ended.producer_id,
            ended.producer_epoch,
        ):
            return CoordinatorResult(ProducerReply(ErrorCode.producer_fenced))
        return self._result(Decision(DONE, metadata.completed(now.wall_ms)))

    def on_markers(self, transactional_id: str, written: frozenset[TopicPartition]) -> None:
        """These partitions have their marker; it is soft state, which operators see."""
        metadata = self._metadata.get(transactional_id)
        if metadata is not None and metadata.state in PREPARED:
            self._put(metadata.without(written))

    def _entry(self, transactional_id: str) -> tuple[TransactionMetadata | None, bool]:
        return self._metadata.get(transactional_id), transactional_id in self._pending

    # -- what operators see --------------------------------------------------

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        """None also while the id expires."""
        if self._pending.get(transactional_id, "") is None:
            return None
        return self._metadata.get(transactional_id)

    def __iter__(self) -> Iterator[TransactionMetadata]:
        return (each for name in list(self._metadata) if (each := self.get(name)) is not None)

    def open_transactions(self) -> list[TransactionMetadata]:
        """Those that are not completed."""
        return [self._metadata[name] for name in self._open]

    # -- timers --------------------------------------------------------------

    def on_loaded(self, now: Now) -> CoordinatorResult[None]:
        """Send the markers again that a coordinator before may not have written."""
        markers = tuple(
            self._markers(metadata)
            for metadata in self.open_transactions()
            if metadata.state in PREPARED
        )
        return CoordinatorResult(
            None, (), (*markers, self._arm(ABORT_LATE, now), self._arm(EXPIRE_IDS, now))
        )

    def on_timer(self, key: TimerKey, now: Now) -> CoordinatorResult[None]:
        """Abort transactions that last too long, or forget ids that nobody uses."""
        result = self._abort_late(now) if key == ABORT_LATE else self._expire(now)
        return result._replace(effects=(*result.effects, self._arm(key, now)))

    def _arm(self, key: TimerKey, now: Now) -> ArmTimer:
        settings = self._settings
        every = settings.abort_interval_ms if key == ABORT_LATE else settings.expire_interval_ms
        return ArmTimer(key, now.loop_ms + every)

    def _abort_late(self, now: Now) -> CoordinatorResult[None]:
        """Abort what lasts too long; it does not last longer because a clock was ahead."""
        for metadata in self.open_transactions():
            self._put(metadata.begun_by(now.wall_ms))
        late = [
            metadata.fenced(now.wall_ms, self._version())
            for metadata in self.open_transactions()
            if metadata.is_late(now.wall_ms) and metadata.transactional_id not in self._pending
        ]
        records = tuple(self._begin(target) for target in late)
        return CoordinatorResult(None, records, tuple(map(self._markers, late)), is_atomic=False)

    def _expire(self, now: Now) -> CoordinatorResult[None]:
        last_ms = now.wall_ms - self._settings.expiration_ms
        expired = [
            name
            for name, metadata in self._metadata.items()
            if metadata.state in ENDED
            and metadata.last_update_ms <= last_ms
            and name not in self._pending
        ]
        self._pending.update(dict.fromkeys(expired))
        return CoordinatorResult(
            None,
            tuple(CoordinatorRecord(encode_key(name), None) for name in expired),
            is_atomic=False,
        )

    # -- the log -------------------------------------------------------------

    def _result(self, decision: Decision) -> CoordinatorResult[ProducerReply]:
        if decision.target is None:
            return CoordinatorResult(decision.reply)
        effects: tuple[Effect, ...] = ()
        if decision.target.state in PREPARED:
            effects = (self._markers(decision.target),)
        return CoordinatorResult(decision.reply, (self._begin(decision.target),), effects)

    def _begin(self, target: TransactionMetadata) -> CoordinatorRecord:
        """Remember the change until its record, which is returned, is committed."""
        record = encode(target, self._version())
        if target.transactional_id in self._pending:
            facts = {"id": target.transactional_id}
            law(False, "TXN-2 a transactional id has one pending change at a time", **facts)
        self._pending[target.transactional_id] = target
        return record

    def _markers(self, metadata: TransactionMetadata) -> Emit:
        return Emit(WriteMarkers(metadata, self.coordinator_epoch))

    def replay(self, record: CoordinatorRecord, producer_id: int | None = None) -> None:
        transactional_id = decode_id(record.key)
        if transactional_id is None:
            return
        if record.value is None:
            self._pending.pop(transactional_id, None)
            self._metadata.pop(transactional_id, None)
            self._open.pop(transactional_id, None)
            return
        # A pending change knows the last epoch too, which is in no record.
        target = self._pending.pop(transactional_id, None)
        if target is None:
            target = decode(transactional_id, record.value)
        else:
            self._check_epoch(target)
        self._put(target)

    def _put(self, metadata: TransactionMetadata) -> None:
        self._metadata[metadata.transactional_id] = metadata
        if metadata.state in OPEN:
            self._open[metadata.transactional_id] = None
        else:
            self._open.pop(metadata.transactional_id, None)

    def _check_epoch(self, target: TransactionMetadata) -> None:
        old = self._metadata.get(target.transactional_id)
        if (
            old is not None
            and old.producer_id == target.producer_id
            and old.producer_epoch > target.producer_epoch
        ):
            facts = {"id": target.transactional_id, "new": target.producer_epoch}
            law(False, "TXN-3 the epoch of a producer id never goes back", **facts)

    def replay_end_of_transaction(self, producer_id: int, is_committed: bool) -> None:
        """No record of this topic is part of a transaction."""

    def on_append_failed(
        self, result: CoordinatorResult[Reply], error: ErrorCode, now: Now
    ) -> CoordinatorResult[Reply]:
        """Nothing is pending any more, and no marker is sent; timers stay armed."""
        for record in result.records:
            transactional_id = decode_id(record.key)
            if transactional_id is not None:
                self._pending.pop(transactional_id, None)
        timers = tuple(effect for effect in result.effects if isinstance(effect, ArmTimer))
        return CoordinatorResult(cast(Reply, failed_reply(result.reply, error)), (), timers)
