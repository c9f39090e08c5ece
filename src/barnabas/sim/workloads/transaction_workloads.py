"""Workloads of transactions: producers, consume-transform-produce, and committed readers."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition, by_topic
from barnabas.base.randomness import Random
from barnabas.client.metadata import fields
from barnabas.client.retries import Address
from barnabas.sim.checkers.history import TRANSACTIONAL, OperationHistory
from barnabas.sim.checkers.transaction_operations import OUTSIDE, CommittedPoll, CommittedPolled
from barnabas.sim.clients.client_connections import Connections
from barnabas.sim.clients.committed_consumer import CommittedConsumer
from barnabas.sim.clients.transactional_producer import (
    EPOCH_BUMP,
    GROUP,
    StepFailed,
    TransactionalProducer,
)
from barnabas.sim.workloads.workloads import Workload
from barnabas.wire.apis import ApiKey

INPUT, OUTPUT = TRANSACTIONAL
PARTITIONS: Final = 2
TRANSACTION_TOPICS: Final = dict.fromkeys(TRANSACTIONAL, PARTITIONS)
COPIERS: Final = "accountants"  # the group whose offsets are in its transactions
MOST_BATCHES: Final = 4
MOST_RECORDS: Final = 3
COPIER_ID: Final = "copier"
_ONE_IN_ABORTS: Final = 4
_ONE_IN_VANISHES: Final = 12
_ONE_IN_GIVES_UP: Final = 4
_GIVES_UP_MS: Final = 500
_ONE_IN_DIES: Final = 4
_DIES_WITHIN_MS: Final = 20


def partitions_of(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in range(PARTITIONS)]


class TransactionWorkload(Workload):
    """Transactions over several partitions: most commit, some abort, some are left open."""

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: OperationHistory,
        version: int = EPOCH_BUMP,
    ) -> None:
        super().__init__(name, random)
        self._history = history
        self._producer = TransactionalProducer(name, bootstrap, random, history, name, version)

    async def run(self) -> None:
        is_ready = False
        while not self.is_over:
            try:
                if not is_ready:
                    await self._producer.init()
                is_ready = True
                await self._transact()
                is_ready = bool(self.random.below(_ONE_IN_VANISHES))
            except StepFailed:
                is_ready = False
            await self.rest()
        self._producer.close()

    async def _transact(self) -> None:
        self._producer.begin()
        to = partitions_of(INPUT)
        try:
            for _ in range(1 + self.random.below(MOST_BATCHES)):
                count = 1 + self.random.below(MOST_RECORDS)
                values = [self._history.new_value() for _ in range(count)]
                await self._send(to[self.random.below(len(to))], values)
                await self.rest(100)
        except TimeoutError:
            await self._producer.end(commit=False)
            raise StepFailed("the batch may arrive after its transaction") from None
        except StepFailed:
            if self.random.below(2):
                await self._producer.end(commit=False)
                return
            raise
        if self.random.below(_ONE_IN_VANISHES):
            await self._producer.end(commit=bool(self.random.below(_ONE_IN_ABORTS)))
        else:
            raise StepFailed("left open, as by a process that dies")

    async def _send(self, at: TopicPartition, values: Sequence[int]) -> None:
        """Send a batch; sometimes with a `delivery.timeout.ms` that may be too short.

        Raises  StepFailed, TimeoutError
        """
        is_patient = self.random.below(_ONE_IN_GIVES_UP)
        async with asyncio.timeout(None if is_patient else self.random.below(_GIVES_UP_MS) / 1000):
            await self._producer.send(at, values)


class CopyWorkload(Workload):
    """Consume-transform-produce: each input record has one output, its offset is committed with it.

    After a failure it takes the next epoch, and goes on from the committed offsets. If it
    `hands_over`, another process goes on instead, with a transactional id of its own (KIP-447): no
    epoch fences the one before, only its pending offsets hold the next one up.
    """

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: OperationHistory,
        version: int = EPOCH_BUMP,
        *,
        hands_over: bool = False,
    ) -> None:
        super().__init__(name, random)
        self._history = history
        self._hands_over = hands_over
        self._processes = 0
        # One id for all copiers: each takes the epoch of the other, which then is a zombie.
        self._producer = TransactionalProducer(name, bootstrap, random, history, COPIER_ID, version)
        self._consumer = CommittedConsumer(name, bootstrap, random, history)

    async def run(self) -> None:
        is_ready = False
        while not self.is_over:
            try:
                if not is_ready:
                    is_ready = await (self._take_over() if self._hands_over else self._begin())
                else:
                    await self._copy()
            except StepFailed:
                is_ready = False
            await self.rest()
        self._producer.close()
        self._consumer.close()

    async def _begin(self) -> bool:
        await self._producer.init()
        return await self._resume()

    async def _take_over(self) -> bool:
        """Begin as the next process. Only the offsets say what the one before has done."""
        if not await self._resume():
            return False
        self._processes += 1
        self._producer.become(f"{COPIER_ID}-{self._processes}")
        await self._producer.init()
        return True

    async def _resume(self) -> bool:
        """Seek to the committed offsets; False, if they cannot be fetched."""
        found = await committed_offsets(self._producer.connections, COPIERS, partitions_of(INPUT))
        if found is None:
            await self._producer.connections.back_off()
            return False
        self._consumer.assign(found)
        return True

    async def _copy(self) -> None:
        before = dict(self._consumer.positions)
        self._consumer.transaction = self._producer.begin()
        first = len(self._history.operations)
        await self._consumer.poll()
        self._consumer.transaction = OUTSIDE
        if self._consumer.positions == before:
            return
        try:
            for at, records in self._polled(first).items():
                values = [self._history.new_value() for _ in records]
                if values:
                    to = TopicPartition(OUTPUT, at.partition)
                    await self._producer.send(to, values, records)
            await self._producer.commit_offsets(COPIERS, self._consumer.positions)
        except StepFailed:
            if self.random.below(2):
                await self._producer.end(commit=False)
            raise
        if self._hands_over and not self.random.below(_ONE_IN_DIES):
            await self._die_amid_commit()
        await self._producer.end(commit=True)

    async def _die_amid_commit(self) -> None:
        """The process dies when it has sent its EndTxn, or a little later."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.random.below(_DIES_WITHIN_MS) / 1000):
                await self._producer.end(commit=True)
        raise StepFailed("the process died amid its commit")

    def _polled(self, first: int) -> dict[TopicPartition, list[int]]:
        """The values of this transaction's polls, by partition."""
        found: dict[TopicPartition, list[int]] = {}
        for operation in self._history.operations[first:]:
            poll, got = operation.asked, operation.got
            if (
                isinstance(poll, CommittedPoll)
                and isinstance(got, CommittedPolled)
                and poll.transaction == self._producer.transaction
            ):
                found.setdefault(poll.at, []).extend(value for _, value in got.records)
        return found


class CommittedReadingWorkload(Workload):
    """Reads both topics with read_committed; sometimes from the start again."""

    def __init__(
        self, name: str, bootstrap: Sequence[Address], random: Random, history: OperationHistory
    ) -> None:
        super().__init__(name, random)
        self._consumer = CommittedConsumer(name, bootstrap, random, history)

    async def run(self) -> None:
        everything = [at for topic in TRANSACTIONAL for at in partitions_of(topic)]
        self._consumer.assign(dict.fromkeys(everything, 0))
        while not self.is_over:
            await self._consumer.poll()
            if not self.random.below(40):
                self._consumer.assign(dict.fromkeys(everything, 0))
            await self.rest()
        self._consumer.close()


async def committed_offsets(
    connections: Connections, group: str, wanted: Sequence[TopicPartition]
) -> dict[TopicPartition, int] | None:
    """The stable committed offsets of a group, 0 where there is none; None if it must wait."""
    topics = tuple(
        fields(name=name, partition_indexes=tuple(numbers))
        for name, numbers in by_topic(wanted).items()
    )
    try:
        answer = await connections.ask_any(
            ApiKey.FIND_COORDINATOR, key_type=GROUP, coordinator_keys=(group,)
        )
        (found,) = answer.coordinators
        if found.error_code is not ErrorCode.none:
            return None
        request = fields(groups=(fields(group_id=group, topics=topics),), require_stable=True)
        answer = await connections.ask_at((found.host, found.port), ApiKey.OFFSET_FETCH, request)
    except PeerGone:
        return None
    (told,) = answer.groups
    if told.error_code is not ErrorCode.none:
        return None
    offsets = {}
    for topic in told.topics:
        for each in topic.partitions:
            if each.error_code is not ErrorCode.none:
                return None
            at = TopicPartition(topic.name, each.partition_index)
            offsets[at] = max(0, each.committed_offset)
    return offsets
