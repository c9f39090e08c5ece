"""Verification guards: proof that the coordinator knows a partition as part of a transaction.

The first append of a transaction to a partition needs a guard. The broker makes one, asks the
coordinator of the transaction, and appends with the same guard. Data and end markers remove it: an
answer that comes after the end of the transaction does not let a delayed batch in (KIP-890).
"""

from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode

# A guard that the coordinator refuses stays until it expires. Beyond this number the oldest goes.
MOST_GUARDS: Final = 100_000


class VerificationGuard:
    """Equal to itself alone."""

    __slots__ = ()


# For appends that need no guard: verification is switched off, or the coordinator cannot verify.
UNGUARDED: Final = VerificationGuard()


class _Verification:
    __slots__ = ("epoch", "guard", "is_epoch_bumped", "lowest_sequence", "since_ms")

    def __init__(self, epoch: int, sequence: int, now_ms: int, is_epoch_bumped: bool) -> None:
        self.guard = VerificationGuard()
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.since_ms = now_ms
        self.is_epoch_bumped = is_epoch_bumped


class Verifications:
    """The guards of one partition, by producer id; none outlives a restart."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, is_epoch_bumped: bool
    ) -> VerificationGuard:
        """The guard of the producer; it keeps the lowest first sequence of its epoch.

        `is_epoch_bumped` says that each transaction has an epoch of its own, so its first batch in
        a partition has sequence 0.
        """
        known = self._by_producer.get(producer_id)
        if known is None:
            if len(self._by_producer) >= MOST_GUARDS:
                del self._by_producer[next(iter(self._by_producer))]
            known = _Verification(epoch, sequence, now_ms, is_epoch_bumped)
            self._by_producer[producer_id] = known
        elif epoch > known.epoch:
            known.epoch, known.lowest_sequence = epoch, sequence
        elif epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known.guard

    def check(self, producer_id: int, guard: VerificationGuard | None) -> None:
        """Raises BrokerError(invalid_txn_state), unless `guard` is the one of the producer."""
        known = self._by_producer.get(producer_id)
        if guard is not UNGUARDED and (known is None or known.guard is not guard):
            raise BrokerError(
                ErrorCode.invalid_txn_state,
                f"the partition is not known to be in the transaction of producer {producer_id}",
            )

    def check_sequence(self, producer_id: int, sequence: int, *, is_new: bool) -> None:
        """Refuse a batch that overtook an earlier one while both were verified.

        Raises  BrokerError(out_of_order_sequence_number)
        """
        known = self._by_producer.get(producer_id)
        if known is None:
            return
        lowest = 0 if is_new and known.is_epoch_bumped else known.lowest_sequence
        if sequence > lowest:
            raise BrokerError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {producer_id} sent sequence {sequence}, its transaction begins "
                f"with {lowest}",
            )

    def end(self, producer_id: int) -> None:
        """Data is in the log: the guard is used up."""
        self._by_producer.pop(producer_id, None)

    def end_by_marker(self, producer_id: int, marker_epoch: int) -> None:
        """An end marker is in the log: the guard of the transaction that it ends is used up.

        Where each transaction has an epoch of its own, the marker has the epoch of the next one,
        whose first batch may wait for this marker.
        """
        known = self._by_producer.get(producer_id)
        if known is not None and not (known.is_epoch_bumped and known.epoch >= marker_epoch):
            del self._by_producer[producer_id]

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Remove the guards that nobody came back with."""
        for producer_id, known in list(self._by_producer.items()):
            if now_ms - known.since_ms >= after_ms:
                del self._by_producer[producer_id]

    def clear(self) -> None:
        self._by_producer.clear()
