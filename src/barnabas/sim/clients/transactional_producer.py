"""A simulated transactional producer, which records each step of its transactions in the history.

Theory of operation. The producer takes an epoch by InitProducerId, and every transaction ends with
an acknowledged commit or abort, or with another InitProducerId, which fences what is still under
way. A step without an answer is tried again until a time limit; then its outcome is unknown.
With `transaction.version` 2 the producer gets another epoch with the answer to EndTxn (KIP-890).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from barnabas.base.errors import BarnabasError, ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.frames import MalformedResponse
from barnabas.client.metadata import fields
from barnabas.client.produce import Produce, Produced, read_produce_response, write_produce_request
from barnabas.client.retries import PRODUCE_AGAIN, STALE_COORDINATOR, Address
from barnabas.client.versions import NEWEST
from barnabas.sim.checkers.history import (
    NO_OFFSET,
    OperationHistory,
    OperationOutcome,
    Sent,
    key_of,
    payload,
)
from barnabas.sim.checkers.transaction_operations import (
    Begin,
    EndTransaction,
    TransactionalCommit,
    TransactionalSend,
)
from barnabas.sim.clients.client_connections import REQUEST_S, Connections, topics_to_commit
from barnabas.sim.clients.producer_client import EPOCH_MS, PRODUCE_TIMEOUT_MS
from barnabas.wire.apis import ApiKey
from barnabas.wire.records.records import Record, build_batch
from barnabas.wire.schema import duration

STEP_S: Final = 12.0  # a step is tried again for so long
TIMEOUT_MS: Final = 10_000  # of a transaction
GROUP, TRANSACTION = 0, 1  # kinds of coordinators
EPOCH_BUMP: Final = 2  # the transaction.version with an epoch for each transaction
_ALL: Final = -1
_E = ErrorCode
_ADD_BY_CLIENT: Final = 3  # the newest AddPartitionsToTxn of clients
_IMPLICIT: Final = 12  # the first Produce that adds its partition itself
_END: Final = {0: 4, EPOCH_BUMP: 5}
_OFFSETS: Final = {0: 4, EPOCH_BUMP: 5}
_AGAIN: Final = STALE_COORDINATOR | {
    _E.concurrent_transactions,
    _E.request_timed_out,
    _E.network_exception,
    _E.unknown_topic_or_partition,
    _E.unstable_offset_commit,
}
# Errors that leave open whether the request took effect.
_UNSURE: Final = frozenset(
    {_E.coordinator_not_available, _E.not_coordinator, _E.request_timed_out, _E.network_exception}
)


class StepFailed(BarnabasError):
    """A step of a transaction failed; `is_unsure` if it may have happened all the same."""

    def __init__(self, why: str, *, is_unsure: bool = False) -> None:
        super().__init__(why)
        self.is_unsure = is_unsure


class TransactionalProducer:
    """One transactional id; used by one task. After StepFailed, call `abort` or `init`."""

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: OperationHistory,
        transactional_id: str,
        version: int = EPOCH_BUMP,
    ) -> None:
        self.connections = Connections(name, bootstrap, random)
        self.transactional_id = transactional_id
        self.transaction = -1
        self._history = history
        self._version = version
        self._producer_id = self._epoch = -1
        self._sequences: dict[TopicPartition, int] = {}
        self._added: dict[TopicPartition, None] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}

    def close(self) -> None:
        self.connections.close()

    # -- the life of a transaction -------------------------------------------

    def become(self, transactional_id: str) -> None:
        """Go on as another process, with an id of its own; `init` must follow."""
        self.transactional_id = transactional_id
        self._take(-1, -1)

    async def init(self) -> None:
        """Take the next epoch; what an earlier one left open is aborted. Raises StepFailed"""
        answer = await self._ask(
            TRANSACTION,
            self.transactional_id,
            ApiKey.INIT_PRODUCER_ID,
            fields(
                transactional_id=self.transactional_id, transaction_timeout=duration(TIMEOUT_MS)
            ),
        )
        self._take(answer.producer_id, answer.producer_epoch)

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._sequences.clear()
        self._producer_id, self._epoch = producer_id, epoch

    def begin(self) -> int:
        """Begin a transaction, which the coordinator learns with its first partition."""
        self._added.clear()
        asked = Begin(self.transactional_id, self._producer_id, self._epoch)
        operation = self._history.begin(self.connections.name, asked)
        self._history.end(operation, OperationOutcome.OK)
        self.transaction = operation.number
        return self.transaction

    async def send(
        self, at: TopicPartition, values: Sequence[int], sources: Sequence[int] = ()
    ) -> None:
        """Send one batch and wait for its acknowledgement. Raises StepFailed"""
        asked = TransactionalSend(self.transaction, at, tuple(values), tuple(sources))
        operation = self._history.begin(self.connections.name, asked)
        try:
            if at not in self._added and not self._is_implicit:
                await self._add(at)
            self._added[at] = None
            base_offset = await self._deliver(at, values)
        except StepFailed as failed:
            outcome = OperationOutcome.UNKNOWN if failed.is_unsure else OperationOutcome.FAILED
            self._history.end(operation, outcome, why=str(failed))
            raise
        self._history.end(operation, OperationOutcome.OK, Sent(base_offset))

    async def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit a group's offsets with the transaction. Raises StepFailed"""
        asked = TransactionalCommit(self.transaction, group, tuple(offsets.items()))
        operation = self._history.begin(self.connections.name, asked)
        own = {
            "transactional_id": self.transactional_id,
            "producer_id": self._producer_id,
            "producer_epoch": self._epoch,
        }
        try:
            if not (self._version >= EPOCH_BUMP and NEWEST[ApiKey.PRODUCE] >= _IMPLICIT):
                await self._ask(
                    TRANSACTION,
                    self.transactional_id,
                    ApiKey.ADD_OFFSETS_TO_TXN,
                    fields(**own, group_id=group),
                )
            await self._ask(
                GROUP,
                group,
                ApiKey.TXN_OFFSET_COMMIT,
                fields(**own, group_id=group, topics=topics_to_commit(offsets)),
                min(_OFFSETS[self._version], NEWEST[ApiKey.TXN_OFFSET_COMMIT]),
            )
        except StepFailed as failed:
            self._history.end(operation, OperationOutcome.UNKNOWN, why=str(failed))
            raise
        self._history.end(operation, OperationOutcome.OK)

    async def end(self, *, commit: bool) -> None:
        """Commit or abort. Raises StepFailed, after which only `init` may follow"""
        asked = EndTransaction(self.transaction, commit)
        operation = self._history.begin(self.connections.name, asked)
        message = fields(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commit,
        )
        try:
            answer = await self._ask(
                TRANSACTION,
                self.transactional_id,
                ApiKey.END_TXN,
                message,
                _END[self._version],
            )
        except StepFailed as failed:
            outcome = OperationOutcome.UNKNOWN if failed.is_unsure else OperationOutcome.FAILED
            self._history.end(operation, outcome, why=str(failed))
            raise
        self._history.end(operation, OperationOutcome.OK)
        if self._version >= EPOCH_BUMP and answer.producer_id >= 0:
            self._take(answer.producer_id, answer.producer_epoch)

    # -- partitions ----------------------------------------------------------

    @property
    def _is_implicit(self) -> bool:
        return self._version >= EPOCH_BUMP and NEWEST[ApiKey.PRODUCE] >= _IMPLICIT

    async def _add(self, at: TopicPartition) -> None:
        topic = fields(name=at.topic, partitions=(at.partition,))
        await self._ask(
            TRANSACTION,
            self.transactional_id,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            fields(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self._producer_id,
                v3_and_below_producer_epoch=self._epoch,
                v3_and_below_topics=(topic,),
                transactional_id=self.transactional_id,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                topics=(topic,),
            ),
            _ADD_BY_CLIENT,
        )

    async def _deliver(self, at: TopicPartition, values: Sequence[int]) -> int:
        """Send until it is acknowledged; return the base offset, if it is known."""
        sequence = self._sequences.get(at, 0)
        self._sequences[at] = sequence + len(values)
        now_ms = EPOCH_MS + round(self._history.now() * 1000)
        batch = build_batch(
            [Record(n, now_ms, key_of(value), payload(value)) for n, value in enumerate(values)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        produce = Produce(
            at.topic, at.partition, batch, _ALL, PRODUCE_TIMEOUT_MS, self.transactional_id
        )
        version = _IMPLICIT if self._is_implicit else min(NEWEST[ApiKey.PRODUCE], _IMPLICIT - 1)
        until, is_unsure = self._history.now() + STEP_S, False
        while True:
            try:
                produced = await self._produce(at, version, produce)
                error, why = produced.error, produced.error.name
            except (PeerGone, MalformedResponse) as gone:
                error, why, is_unsure = None, str(gone), True
            if error is _E.none:
                return produced.base_offset
            if error is _E.duplicate_sequence_number:
                return NO_OFFSET
            if error is not None and error not in PRODUCE_AGAIN | {_E.concurrent_transactions}:
                raise StepFailed(why, is_unsure=is_unsure)
            is_unsure |= error in PRODUCE_AGAIN
            if self._history.now() >= until:
                raise StepFailed(why, is_unsure=is_unsure)
            await self.connections.back_off()
            await self.connections.refresh()

    async def _produce(self, at: TopicPartition, version: int, produce: Produce) -> Produced:
        if self.connections.leader(at) is None:
            await self.connections.refresh()
        leader = self.connections.leader(at)
        if leader is None:
            raise PeerGone(f"nobody is known to lead {at}")
        connection = await self.connections.to(leader.broker)
        name = self.connections.name
        response = await connection.exchange(
            lambda number: write_produce_request(version, number, name, produce), REQUEST_S
        )
        return read_produce_response(version, response)

    # -- coordinators --------------------------------------------------------

    async def _ask(
        self, kind: int, name: str, key: ApiKey, message: Any, version: int | None = None
    ) -> Any:
        """The response without an error; the request is sent again for a while."""
        until, is_unsure = self._history.now() + STEP_S, False
        while True:
            try:
                address = await self._find(kind, name)
                answer = await self.connections.ask_version(
                    address, key, NEWEST[key] if version is None else version, message
                )
                error = worst_error(answer)
                why = error.name
            except PeerGone as gone:
                error, why, is_unsure = _E.network_exception, str(gone), True
            if error is _E.none:
                return answer
            is_unsure |= error in _UNSURE
            if error not in _AGAIN or self._history.now() >= until:
                raise StepFailed(why, is_unsure=is_unsure)
            if error is not _E.concurrent_transactions:
                self._coordinators.pop((kind, name), None)
            await self.connections.back_off()

    async def _find(self, kind: int, name: str) -> Address:
        if (kind, name) not in self._coordinators:
            answer = await self.connections.ask_any(
                ApiKey.FIND_COORDINATOR, key_type=kind, coordinator_keys=(name,)
            )
            (found,) = answer.coordinators
            if found.error_code is not _E.none:
                raise PeerGone(f"no coordinator: {found.error_code.name}")
            self._coordinators[kind, name] = (found.host, found.port)
        return self._coordinators[kind, name]


def worst_error(answer: Any) -> ErrorCode:
    """The first error of a response as a whole, or of one of its partitions."""
    if getattr(answer, "error_code", _E.none) is not _E.none:
        code: ErrorCode = answer.error_code
        return code
    topics = (*getattr(answer, "topics", ()), *getattr(answer, "results_by_topic_v3_and_below", ()))
    for topic in topics:
        for names in ("partitions", "results_by_partition"):
            for each in getattr(topic, names, ()):
                found: ErrorCode = getattr(
                    each, "error_code", getattr(each, "partition_error_code", _E.none)
                )
                if found is not _E.none:
                    return found
    return _E.none
