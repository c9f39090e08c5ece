"""Transactional batches in a Produce: what is checked before the append, and the error codes."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.base.clock import Clock
from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.log.producers.verification import UNGUARDED, VerificationGuard
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replicas import Replicas
from barnabas.server.transactions.partition_verification import Asked, Codes, PartitionVerification
from barnabas.wire.produce.produce_codec import ProduceRequest, SinglePartition
from barnabas.wire.records.batch import HEADER_SIZE, TRANSACTIONAL, BatchHeader, read_header

Guards = Mapping[tuple[str, int], VerificationGuard]
Headers = Mapping[tuple[str, int], BatchHeader]

# The first version whose clients know TRANSACTION_ABORTABLE.
ABORTABLE_SINCE: Final = 11
# The first version whose clients leave it to the leader to add partitions (KIP-890, part 2).
ADDS_SINCE: Final = 12

# The transaction may well be there: the producer tries again.
_RETRIED: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        # The coordinator refused another partition of the request, and so added none.
        ErrorCode.operation_not_attempted,
    }
)
_NO_GUARDS: Final[Guards] = {}
_NO_CODES: Final[Codes] = {}


class Begun(NamedTuple):
    """A request with transactional batches, before its first append.

    `error` refuses all of it. `codes` are of the partitions that are not led here (a leader that
    is elected meanwhile has no guard for them), and of those that this broker's coordinator has
    verified. `asked` is what another coordinator has yet to verify.
    """

    error: ErrorCode = ErrorCode.none
    guards: Guards = _NO_GUARDS
    codes: Codes = _NO_CODES
    asked: Asked | None = None


class TransactionalProduce:
    """Checks transactional batches, and asks the coordinator about those that need it."""

    def __init__(
        self, replicas: Replicas, clock: Clock, verification: PartitionVerification
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._verification = verification

    def begin(self, version: int, request: ProduceRequest, headers: Headers) -> Begun:
        """Check the batches and make their guards. Does not suspend."""
        error = check_transaction(request, headers)
        if error is not ErrorCode.none:
            return Begun(error)
        adds = version >= ADDS_SINCE
        if not adds and not self._verification.is_enabled:
            return Begun(guards=dict.fromkeys(headers, UNGUARDED))
        codes = {
            TopicPartition(*key): self._replicas.why_not(*key)
            for key in headers
            if self._replicas.find(*key) is None
        }
        guards = begin_verification(self._replicas, headers, self._clock.now_ms(), adds=adds)
        if not guards:
            return Begun(codes=codes)
        header = next(iter(headers.values()))
        asked = to_ask(request.transactional_id or "", header, guards, adds=adds)
        if (known := self._verification.ask_own(asked)) is not None:
            return Begun(guards=guards, codes={**codes, **known})
        return Begun(guards=guards, codes=codes, asked=asked)

    def verified(
        self, version: int, single: SinglePartition, leader: LeaderReplica
    ) -> VerificationGuard | None:
        """The guard of a transaction's first batch in a partition, if this broker's coordinator
        knows the partition; None leaves the request to `begin`.
        """
        if single.transactional_id is None or version >= ADDS_SINCE:
            return None
        if not self._verification.is_enabled:
            return UNGUARDED
        header = read_header(single.records)
        at = leader.topic_partition
        asked = Asked(single.transactional_id, header.producer_id, header.producer_epoch, (at,))
        codes = None if header.producer_id < 0 else self._verification.ask_own(asked)
        if codes is None or codes[at] is not ErrorCode.none:
            return None
        return leader.log.producers.verifications.begin(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            self._clock.now_ms(),
            is_epoch_bumped=False,
        )

    async def verify(self, begun: Begun) -> Codes:
        """The code of each partition that is asked about, or not led here."""
        if begun.asked is None:
            return begun.codes
        return {**begun.codes, **await self._verification.ask(begun.asked)}


def is_transactional(records: memoryview | None) -> bool:
    return records is not None and len(records) >= HEADER_SIZE and records[22] & TRANSACTIONAL != 0


def begins_transaction(leader: LeaderReplica, single: SinglePartition) -> bool:
    """True for a transactional batch, unless its transaction has data in the partition already."""
    if not is_transactional(single.records):
        return False
    header = read_header(single.records)
    ongoing = leader.log.producers.has_ongoing(header.producer_id, header.producer_epoch)
    return single.transactional_id is None or not ongoing


def transactional_headers(request: ProduceRequest) -> dict[tuple[str, int], BatchHeader]:
    """The headers of the transactional batches, by partition."""
    return {
        (each.topic, each.partition): read_header(each.records)
        for each in request.partitions
        if each.records is not None and is_transactional(each.records)
    }


def check_transaction(request: ProduceRequest, headers: Headers) -> ErrorCode:
    """A transaction has an id, and one producer in one epoch."""
    if request.transactional_id is None:
        return ErrorCode.transactional_id_authorization_failed
    if len({(each.producer_id, each.producer_epoch) for each in headers.values()}) > 1:
        return ErrorCode.invalid_producer_id_mapping
    return ErrorCode.none


def begin_verification(
    replicas: Replicas,
    headers: Headers,
    now_ms: int,
    *,
    adds: bool,
) -> Guards:
    """The guards of the partitions led here in which the transaction has no data yet."""
    guards = {}
    for key, header in headers.items():
        leader = replicas.find(*key)
        if leader is None or header.producer_id < 0:
            continue
        producers = leader.log.producers
        if producers.has_ongoing(header.producer_id, header.producer_epoch):
            continue
        guards[key] = producers.verifications.begin(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            now_ms,
            is_epoch_bumped=adds,
        )
    return guards


def to_ask(transactional_id: str, header: BatchHeader, guards: Guards, *, adds: bool) -> Asked:
    return Asked(
        transactional_id,
        header.producer_id,
        header.producer_epoch,
        tuple(TopicPartition(*key) for key in guards),
        adds,
    )


def produce_error(code: ErrorCode, version: int) -> ErrorCode:
    """The code for the producer of a partition that was not verified."""
    if code is ErrorCode.concurrent_transactions and version >= ADDS_SINCE:
        return code
    if code in _RETRIED:
        return ErrorCode.not_enough_replicas
    if code is ErrorCode.transaction_abortable and version < ABORTABLE_SINCE:
        return ErrorCode.invalid_txn_state
    return code
