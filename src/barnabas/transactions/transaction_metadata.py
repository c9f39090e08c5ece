"""The metadata of a transactional id, and the metadata that each transition leads to.

Every transition is pure: it returns other metadata and changes nothing. From `transaction.version`
2 on, the end of a transaction raises the producer epoch, so that a request that was delayed cannot
touch a later transaction (KIP-890).
"""

from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.base.laws import law
from barnabas.transactions.transaction_state import ENTERED_FROM, TransactionState

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_START: Final = -1
# Only a fence has it: a producer never does, so that it can always be fenced.
FENCING_EPOCH: Final = 32767
LAST_EPOCH: Final = FENCING_EPOCH - 1
# The version of transactions that raises the epoch with each of them.
EPOCH_BUMP: Final = 2

_S = TransactionState
_NONE: Final[frozenset[TopicPartition]] = frozenset()


class TransactionMetadata(NamedTuple):
    """`last_producer_epoch` is in no record, as in Kafka: a coordinator that loads forgets it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    last_update_ms: int
    state: TransactionState = _S.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_START
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """True if the producer id has no epoch left for a producer."""
        return self.producer_epoch >= LAST_EPOCH

    def is_late(self, now_ms: int) -> bool:
        return self.state is _S.ONGOING and self.start_ms + self.timeout_ms < now_ms

    def begun_by(self, now_ms: int) -> "TransactionMetadata":
        """With a start that is not in the future, as the clock of another coordinator may say."""
        return self if self.start_ms <= now_ms else self._replace(start_ms=now_ms)

    def with_epoch(
        self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int, producer_id: int
    ) -> "TransactionMetadata":
        """Of a producer that was initialised: no transaction yet."""
        return self._to(
            _S.EMPTY,
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_START,
            next_producer_id=NO_PRODUCER_ID,
            client_version=0,
        )

    def with_partitions(
        self, added: AbstractSet[TopicPartition], now_ms: int, version: int
    ) -> "TransactionMetadata":
        self._check_entry(_S.ONGOING)
        return TransactionMetadata(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.timeout_ms,
            now_ms,
            _S.ONGOING,
            self.partitions | added if self.partitions else frozenset(added),
            self.start_ms if self.state is _S.ONGOING else now_ms,
            self.producer_id,
            self.next_producer_id,
            self.last_producer_epoch,
            version,
        )

    def prepared(
        self, state: TransactionState, now_ms: int, version: int, next_producer_id: int
    ) -> "TransactionMetadata":
        """Whose outcome is decided, at the request of its producer."""
        bumps = version >= EPOCH_BUMP
        self._check_entry(state)
        return TransactionMetadata(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch + bumps,
            self.timeout_ms,
            now_ms,
            state,
            self.partitions,
            self.start_ms if self.state is _S.ONGOING else now_ms,
            self.producer_id,
            next_producer_id,
            self.producer_epoch if bumps else self.last_producer_epoch,
            version,
        )

    def fenced(self, now_ms: int, version: int) -> "TransactionMetadata":
        """Aborted by the coordinator, in an epoch that its producer does not have.

        A producer that went on is refused. The epoch is raised once, whatever the version.
        """
        return self._to(
            _S.PREPARE_ABORT,
            now_ms,
            producer_epoch=min(self.producer_epoch + 1, FENCING_EPOCH),
            last_producer_epoch=self.producer_epoch if version >= EPOCH_BUMP else NO_EPOCH,
            client_version=version,
        )

    def completed(self, now_ms: int) -> "TransactionMetadata":
        """After the last marker; a producer id whose epochs ran out gives way to the next."""
        is_commit = self.state is _S.PREPARE_COMMIT
        rotates = self.next_producer_id != NO_PRODUCER_ID
        state = _S.COMPLETE_COMMIT if is_commit else _S.COMPLETE_ABORT
        self._check_entry(state)
        return TransactionMetadata(
            self.transactional_id,
            self.next_producer_id if rotates else self.producer_id,
            0 if rotates else self.producer_epoch,
            self.timeout_ms,
            now_ms,
            state,
            _NONE,
            self.start_ms,
            self.producer_id,
            NO_PRODUCER_ID,
            self.last_producer_epoch,
            self.client_version,
        )

    def without(self, partitions: AbstractSet[TopicPartition]) -> "TransactionMetadata":
        """Whose markers are written in these partitions."""
        return self._replace(partitions=self.partitions - partitions)

    def _to(self, state: TransactionState, now_ms: int, **changed: Any) -> "TransactionMetadata":
        self._check_entry(state)
        return self._replace(
            state=state,
            last_update_ms=now_ms,
            previous_producer_id=self.producer_id,
            **changed,
        )

    def _check_entry(self, state: TransactionState) -> None:
        if self.state not in ENTERED_FROM[state]:
            facts = {"id": self.transactional_id, "old": self.state, "new": state}
            law(False, "TXN-1 a transaction changes state as its table allows", **facts)


def new_metadata(
    transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    """Of an id that nobody used: its first epoch, 0, comes with the first producer."""
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=NO_EPOCH,
        timeout_ms=timeout_ms,
        last_update_ms=now_ms,
    )
