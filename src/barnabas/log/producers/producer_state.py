"""The state of one partition's idempotent and transactional producers: sequences, epochs.

Every producer numbers its records; a batch must continue where its last one ended,
so that a retry is neither appended twice nor appended after a gap. The last five
batches are remembered, as many as a producer may have in flight: a retry of one of
them is answered with the offsets it got the first time.

The check of a batch depends on what is known of its producer:

    nothing                   any first sequence: its records may have been deleted,
                              or its state expired
    a smaller producer epoch  it must begin with sequence 0
    the same producer epoch   one of the last five batches again, or the next sequence
    a greater producer epoch  refused: it has been fenced

At most MOST_PRODUCERS of a partition are known. For another one, one that has not written for long
is forgotten, as if its state had expired: ids that somebody invents take bounded memory.

The state is a function of the log. To truncate the log, load the last snapshot at or
below its new end, or clear, and apply the batches from there on.
"""

from itertools import islice
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.safeguards import IN_FORCE, Safeguards
from barnabas.log.producers.producer_snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from barnabas.log.producers.verification import VerificationGuard, Verifications
from barnabas.wire.records.batch import NO_SEQUENCE, TRANSACTIONAL, BatchHeader

BATCHES_REMEMBERED: Final = 5
# Some 50 MB. A producer that is known takes 450 bytes.
MOST_PRODUCERS: Final = 100_000
COMPARED: Final = 8  # of them, to forget one
NO_TRANSACTION: Final = -1
EPOCH_BUMPED: Final = 2  # the first transaction version in which each transaction has its epoch

_SEQUENCE_MASK: Final = 0x7FFFFFFF  # after 2^31-1 comes 0


class AppendedBefore(NamedTuple):
    """A batch that is in the log already, and where."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class LastRecord(NamedTuple):
    """A producer's last record: `offset` is -1 if only an end marker is known of its epoch."""

    offset: int
    producer_epoch: int


class CompletedTransaction(NamedTuple):
    """A transaction that an end marker has decided; what `.txnindex` holds of it if aborted."""

    producer_id: int
    first_offset: int
    last_offset: int  # the marker's
    last_stable_offset: int  # as the marker left it
    aborted: bool


class ProducerState:
    """One producer in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "next_sequence",
        "producer_epoch",
    )

    def __init__(self, producer_epoch: int) -> None:
        self.coordinator_epoch = -1
        self.current_txn_first_offset = NO_TRANSACTION
        self.last_timestamp = -1
        self.begin_epoch(producer_epoch)

    def begin_epoch(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.next_sequence = 0
        self.batches: list[AppendedBefore] = []

    def on_appended(self, base_sequence: int, base_offset: int, count: int, timestamp: int) -> None:
        """Remember a batch of so many records that neither begins nor ends a transaction."""
        last_sequence = (base_sequence + count - 1) & _SEQUENCE_MASK
        last_offset = base_offset + count - 1
        self.remember(
            AppendedBefore(base_sequence, last_sequence, base_offset, last_offset, timestamp)
        )

    def remember(self, batch: AppendedBefore) -> None:
        if len(self.batches) == BATCHES_REMEMBERED:
            del self.batches[0]
        self.batches.append(batch)
        self.next_sequence = (batch.last_sequence + 1) & _SEQUENCE_MASK
        self.last_timestamp = batch.timestamp


class ProducerStates:
    """The producers of one partition. Nothing here touches the disk, or suspends."""

    def __init__(self, expiration_ms: int, safeguards: Safeguards = IN_FORCE) -> None:
        """`expiration_ms` is the broker's `producer.id.expiration.ms`."""
        self.expiration_ms = expiration_ms
        self._safeguards = safeguards
        self.producers: dict[int, ProducerState] = {}
        # First offset to producer, in rising order: transactions begin at the end of the log.
        self._ongoing: dict[int, int] = {}
        self.unreplicated: list[CompletedTransaction] = []
        self.verifications = Verifications()

    def has_ongoing(self, producer_id: int, producer_epoch: int) -> bool:
        """True if the producer has a transaction open here, in this epoch."""
        state = self.producers.get(producer_id)
        return (
            state is not None
            and state.current_txn_first_offset != NO_TRANSACTION
            and state.producer_epoch == producer_epoch
        )

    def check(
        self,
        header: BatchHeader,
        guard: VerificationGuard | None = None,
        *,
        from_client: bool = True,
    ) -> AppendedBefore | None:
        """Check that a leader may append this batch; return where it is if it was appended before.

        Of a coordinator's batch (not `from_client`) only the epoch is checked, and the guard.
        `guard` is the one with which a transactional batch was verified. The epoch comes first: a
        producer that was fenced must not learn of its transaction.

        Raises  BrokerError, changing nothing:
                invalid_producer_epoch        its producer has been fenced
                out_of_order_sequence_number  a gap, or older than the batches remembered
                invalid_txn_state             not transactional, amid a transaction; or
                                              the first of a transaction, without the guard
        """
        if not self._safeguards.sequence_check:
            return None
        state = self.producers.get(header.producer_id)
        if state is not None and (
            header.base_sequence != state.next_sequence
            or header.producer_epoch != state.producer_epoch
        ):
            self._check_epoch(header, state)
            before = _check_unexpected(header, state, from_client=from_client)
            if before is not None:
                return before
        is_transactional = header.attributes & TRANSACTIONAL
        if is_transactional and not self.has_ongoing(header.producer_id, header.producer_epoch):
            if self._safeguards.verification_guard:
                self.verifications.check(header.producer_id, guard)
            if from_client:
                self.verifications.check_sequence(
                    header.producer_id, header.base_sequence, is_new=state is None
                )
        if state is None:
            return None
        in_transaction = state.current_txn_first_offset != NO_TRANSACTION
        if in_transaction and not is_transactional:
            raise BrokerError(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} is in a transaction, its batch is not",
            )
        return None

    def expecting(
        self, producer_id: int, epoch: int, sequence: int, in_transaction: bool = False
    ) -> ProducerState | None:
        """The producer whose next batch has this sequence, in its open transaction or without one.

        For it, `check` would find nothing wrong, and `on_appended` is what `apply` would do, but
        for the guard of the transaction.
        """
        state = self.producers.get(producer_id)
        if (
            state is None
            or state.next_sequence != sequence
            or state.producer_epoch != epoch
            or (state.current_txn_first_offset != NO_TRANSACTION) is not in_transaction
        ):
            return None
        return state

    def apply(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """Apply a batch of records that is in the log at `base_offset`.

        `timestamp` is the batch's max timestamp as written, from which expiry counts. Followers
        and recovery apply without a check: the leader has made it.
        """
        state = self._state_of(header)
        state.remember(
            AppendedBefore(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                base_offset + header.last_offset_delta,
                timestamp,
            )
        )
        if header.attributes & TRANSACTIONAL:
            self.verifications.end(header.producer_id)
            if state.current_txn_first_offset == NO_TRANSACTION:
                state.current_txn_first_offset = base_offset
                self._ongoing[base_offset] = header.producer_id

    def check_marker(
        self, header: BatchHeader, coordinator_epoch: int, transaction_version: int = 0
    ) -> None:
        """Check that a transaction coordinator may append this end marker.

        From transaction version 2 on each transaction ends with a marker of the next epoch. A
        marker of the open transaction's own epoch ended an earlier one, and was delayed; without
        an open transaction it is the same marker again, which is harmless.

        Raises  BrokerError, changing nothing:
                invalid_producer_epoch         its producer has been fenced
                transaction_coordinator_fenced a later coordinator has written a marker
        """
        state = self.producers.get(header.producer_id)
        if state is None:
            return
        self._check_epoch(header, state)
        is_fenced = coordinator_epoch < state.coordinator_epoch
        if transaction_version >= EPOCH_BUMPED and self.has_ongoing(
            header.producer_id, header.producer_epoch
        ):
            raise BrokerError(
                ErrorCode.invalid_producer_epoch,
                f"the marker of epoch {header.producer_epoch} ended an earlier transaction of "
                f"producer {header.producer_id}",
            )
        if is_fenced and self._safeguards.coordinator_epoch_fence:
            raise BrokerError(
                ErrorCode.transaction_coordinator_fenced,
                f"coordinator epoch {coordinator_epoch} for producer {header.producer_id}, "
                f"its latest is {state.coordinator_epoch}",
            )

    def apply_marker(
        self,
        header: BatchHeader,
        offset: int,
        timestamp: int,
        *,
        coordinator_epoch: int,
        aborted: bool,
    ) -> CompletedTransaction | None:
        """Apply an end marker that is in the log at `offset`; None if it ended no transaction.

        A control batch that compaction has emptied ends nothing: it is not applied.
        """
        state = self._state_of(header)
        self.verifications.end_by_marker(header.producer_id, header.producer_epoch)
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp = timestamp
        first_offset = state.current_txn_first_offset
        if first_offset == NO_TRANSACTION:
            return None
        state.current_txn_first_offset = NO_TRANSACTION
        del self._ongoing[first_offset]
        last_stable_offset = next(iter(self._ongoing), offset + 1)
        completed = CompletedTransaction(
            header.producer_id, first_offset, offset, last_stable_offset, aborted
        )
        self.unreplicated.append(completed)
        return completed

    def _check_epoch(self, header: BatchHeader, state: ProducerState) -> None:
        is_past = header.producer_epoch < state.producer_epoch
        if is_past and self._safeguards.producer_epoch_fence:
            raise BrokerError(
                ErrorCode.invalid_producer_epoch,
                f"producer {header.producer_id} sent epoch {header.producer_epoch}, "
                f"its latest is {state.producer_epoch}",
            )

    def _state_of(self, header: BatchHeader) -> ProducerState:
        state = self.producers.get(header.producer_id)
        if state is None:
            if len(self.producers) >= MOST_PRODUCERS:
                self._forget_one()
            state = self.producers[header.producer_id] = ProducerState(header.producer_epoch)
        elif state.producer_epoch != header.producer_epoch:
            state.begin_epoch(header.producer_epoch)
        return state

    def _forget_one(self) -> None:
        """Of some that have been known longest, forget the one whose last batch is oldest; the
        others count as new. A producer with an open transaction is not forgotten.
        """
        known = self.producers
        idle = (n for n, each in known.items() if each.current_txn_first_offset == NO_TRANSACTION)
        some = list(islice(idle, COMPARED))
        some.sort(key=lambda n: known[n].last_timestamp)
        for number in some[1:]:
            known[number] = known.pop(number)
        for number in some[:1]:
            del known[number]

    @property
    def oldest_transaction_ms(self) -> int | None:
        """The time of the last batch of the producer whose transaction has been open longest."""
        oldest = next(iter(self._ongoing.values()), None)
        return None if oldest is None else self.producers[oldest].last_timestamp

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest transaction without an end marker."""
        return next(iter(self._ongoing), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction with no end marker below the high watermark.

        The last stable offset is this, if there is one below the high watermark.
        """
        if not self.unreplicated and not self._ongoing:
            return None
        if not self._safeguards.last_stable_offset_bound:
            return None
        completed = (each.first_offset for each in self.unreplicated)
        return min((*completed, *islice(self._ongoing, 1)), default=None)

    def on_high_watermark(self, high_watermark: int) -> None:
        """End markers below `high_watermark` are replicated: their transactions are stable."""
        if self.unreplicated:
            self.unreplicated = [
                each for each in self.unreplicated if each.last_offset >= high_watermark
            ]

    def last_records(self) -> dict[int, LastRecord]:
        """The records that compaction must keep, so that a restart still knows the producers."""
        return {
            producer_id: LastRecord(
                state.batches[-1].last_offset if state.batches else -1, state.producer_epoch
            )
            for producer_id, state in self.producers.items()
        }

    @property
    def is_empty(self) -> bool:
        """Nothing is remembered, so truncating the log needs no reload."""
        return not self.producers and not self.unreplicated

    def expire(self, now_ms: int) -> int:
        """Forget the producers idle for too long, none amid a transaction; returns how many."""
        idle = [
            producer_id
            for producer_id, state in self.producers.items()
            if state.current_txn_first_offset == NO_TRANSACTION
            and now_ms - state.last_timestamp >= self.expiration_ms
        ]
        for producer_id in idle:
            del self.producers[producer_id]
        self.verifications.expire(now_ms, self.expiration_ms)
        return len(idle)

    def clear(self) -> None:
        self.producers.clear()
        self._ongoing.clear()
        self.unreplicated.clear()
        self.verifications.clear()

    def to_snapshot(self) -> bytes:
        """The bytes of the `.snapshot` named after the offset up to which batches were applied."""
        return encode_snapshot(
            _entry_of(producer_id, state) for producer_id, state in self.producers.items()
        )

    def load_snapshot(self, data: bytes, now_ms: int) -> None:
        """Become what a snapshot holds, less the producers that have expired meanwhile.

        Raises CorruptSnapshot, changing nothing.
        """
        entries = decode_snapshot(data)
        self.clear()
        self.producers.update((entry.producer_id, _state_from(entry)) for entry in entries)
        self._ongoing.update(
            sorted(
                (entry.current_txn_first_offset, entry.producer_id)
                for entry in entries
                if entry.current_txn_first_offset != NO_TRANSACTION
            )
        )
        self.expire(now_ms)


def _check_unexpected(
    header: BatchHeader, state: ProducerState, *, from_client: bool
) -> AppendedBefore | None:
    if header.base_sequence == NO_SEQUENCE or not from_client:
        return None
    expected = 0
    if header.producer_epoch == state.producer_epoch:
        sequences = (header.base_sequence, header.last_sequence)
        for batch in state.batches:
            if batch[:2] == sequences:
                return batch
        expected = state.next_sequence
    if header.base_sequence != expected:
        raise BrokerError(
            ErrorCode.out_of_order_sequence_number,
            f"producer {header.producer_id} in its epoch {header.producer_epoch} sent "
            f"sequence {header.base_sequence}, expected {expected}",
        )
    return None


def _entry_of(producer_id: int, state: ProducerState) -> SnapshotEntry:
    last_sequence, last_offset, offset_delta = NO_SEQUENCE, -1, 0
    if state.batches:
        batch = state.batches[-1]
        last_sequence, last_offset = batch.last_sequence, batch.last_offset
        offset_delta = last_offset - batch.base_offset
    return SnapshotEntry(
        producer_id,
        state.producer_epoch,
        last_sequence,
        last_offset,
        offset_delta,
        state.last_timestamp,
        state.coordinator_epoch,
        state.current_txn_first_offset,
    )


def _state_from(entry: SnapshotEntry) -> ProducerState:
    state = ProducerState(entry.producer_epoch)
    if entry.last_offset >= 0:
        state.remember(
            AppendedBefore(
                (entry.last_sequence - entry.offset_delta) & _SEQUENCE_MASK,
                entry.last_sequence,
                entry.last_offset - entry.offset_delta,
                entry.last_offset,
                entry.timestamp,
            )
        )
    state.last_timestamp = entry.timestamp
    state.coordinator_epoch = entry.coordinator_epoch
    state.current_txn_first_offset = entry.current_txn_first_offset
    return state
