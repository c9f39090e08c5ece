"""Partition verification (KIP-890): asks coordinators whether partitions are part of transactions.

With transaction version 2 the same request adds them. There is one queue per coordinator broker
and one request in flight for each; what arrives meanwhile leaves together. The coordinator of this
broker is asked without a connection.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

from barnabas.base.at_once import at_once
from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.safeguards import IN_FORCE, Safeguards
from barnabas.client.connection import AsyncConnection
from barnabas.coordinator.coordinator_topic import partition_of
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.peer_connections import PeerConnections
from barnabas.server.transactions.transaction_topic import TRANSACTION_TOPIC
from barnabas.transactions.transaction_messages import AddPartitions, Producer
from barnabas.transactions.transaction_metadata import EPOCH_BUMP
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message

log = logging.getLogger("barnabas.transactions.verification")

Codes: TypeAlias = Mapping[TopicPartition, ErrorCode]

# The first version of AddPartitionsToTxn that verifies; older coordinators cannot be asked.
VERIFIES_SINCE: Final = 4
# A transaction that is still ending is asked about again, as Kafka does (after 20 ms).
AGAIN_S: Final = 0.005
AGAIN_FOR_S: Final = 0.1


class Asked(NamedTuple):
    """The partitions of one transaction, to be verified or (`adds`) added to it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    adds: bool = False

    def all(self, code: ErrorCode) -> Codes:
        return dict.fromkeys(self.partitions, code)


class _Queued(NamedTuple):
    """A question, and all who wait for its answer."""

    asked: Asked
    waiting: list["asyncio.Future[Codes]"]

    def settle(self, codes: Codes) -> None:
        for each in self.waiting:
            if not each.done():
                each.set_result(codes)


class OwnCoordinator(Protocol):
    """The transaction coordinator of this broker."""

    def verify(self, request: AddPartitions) -> Codes: ...

    async def add_for_leader(self, request: AddPartitions) -> Codes: ...


class PartitionVerification:
    """Asks the coordinators of transactions; `close` ends what is under way."""

    def __init__(
        self,
        broker_id: BrokerId,
        configs: Configs,
        metadata: MetadataCache,
        peers: PeerConnections,
        failures: FailureChannel,
        own: OwnCoordinator,
        safeguards: Safeguards = IN_FORCE,
    ) -> None:
        self._broker_id = broker_id
        self._own = own
        self._configs = configs
        self._metadata = metadata
        self._peers = peers
        self._failures = failures
        self._safeguards = safeguards
        self._queues: dict[BrokerId, dict[str, _Queued]] = {}
        self._tasks: dict[BrokerId, asyncio.Task[None]] = {}
        self._connections: dict[BrokerId, tuple[AsyncConnection, int]] = {}
        self._is_closed = False

    @property
    def is_enabled(self) -> bool:
        is_in_force = self._safeguards.verification_guard
        return is_in_force and self._configs.broker.bool(
            "transaction.partition.verification.enable"
        )

    async def ask(self, asked: Asked) -> Codes:
        """The code of each partition: `none` if it is part of the transaction."""
        if (known := self.ask_own(asked)) is not None:
            return known
        loop = asyncio.get_running_loop()
        until_s = loop.time() + AGAIN_FOR_S
        while True:
            answer = await self._enqueue(asked)
            codes = {each: answer[each] for each in asked.partitions}  # others may have joined
            is_ending = ErrorCode.concurrent_transactions in codes.values()
            if not (asked.adds and is_ending) or loop.time() >= until_s:
                return codes
            await asyncio.sleep(AGAIN_S)

    def ask_own(self, asked: Asked) -> Codes | None:
        """The same at once, if the coordinator is here and no partition is to be added."""
        if asked.adds or self._coordinator(asked.transactional_id) != self._broker_id:
            return None
        return _as_leaders(self._own.verify(_request_of(asked)))

    async def close(self) -> None:
        """Give all that is under way, or asked later, an error that passes."""
        self._is_closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for queue in self._queues.values():
            for queued in queue.values():
                queued.settle(queued.asked.all(ErrorCode.network_exception))
        for connection, _ in self._connections.values():
            connection.close()

    # -- queues --------------------------------------------------------------

    def _enqueue(self, asked: Asked) -> "asyncio.Future[Codes]":
        codes: asyncio.Future[Codes] = asyncio.get_running_loop().create_future()
        queued = _Queued(asked, [codes])
        coordinator = self._coordinator(asked.transactional_id)
        if self._is_closed or coordinator is None:
            queued.settle(asked.all(ErrorCode.coordinator_not_available))
            return codes
        queue = self._queues.setdefault(coordinator, {})
        waiting = queue.get(asked.transactional_id)
        if waiting is None:
            queue[asked.transactional_id] = queued
        elif (joined := joint(waiting.asked, asked)) is not None:
            queue[asked.transactional_id] = _Queued(joined, [*waiting.waiting, codes])
        elif (code := decide_outlived(waiting.asked, asked)) is not None:
            waiting.settle(waiting.asked.all(code))
            queue[asked.transactional_id] = queued
        else:
            queued.settle(asked.all(ErrorCode.invalid_producer_epoch))
            return codes
        if coordinator not in self._tasks:
            draining = self._drain(coordinator, queue)
            left = at_once(draining) if coordinator == self._broker_id else draining
            if left is None:
                return codes
            task = asyncio.ensure_future(left)
            self._tasks[coordinator] = task
            task.add_done_callback(self._on_task_ended)
        return codes

    def _coordinator(self, transactional_id: str) -> BrokerId | None:
        topic = self._metadata.topic(TRANSACTION_TOPIC)
        if topic is None:
            return None
        partition = topic.partitions.get(partition_of(transactional_id, len(topic.partitions)))
        if partition is None or partition.leader not in self._metadata.brokers:
            return None
        return partition.leader

    def _on_task_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (broken := task.exception()) is not None:
            self._failures.fatal(broken)

    async def _drain(self, coordinator: BrokerId, queue: dict[str, _Queued]) -> None:
        while queue:
            batch = list(queue.values())
            queue.clear()
            codes = [queued.asked.all(ErrorCode.network_exception) for queued in batch]
            try:
                codes = await self._send(coordinator, [queued.asked for queued in batch])
            finally:
                # Also when the broker shuts down: each request waits for its answer.
                for queued, result in zip(batch, codes, strict=True):
                    queued.settle(result)
        # Before anything else runs: what is queued from now on needs another task.
        self._tasks.pop(coordinator, None)

    # -- requests ------------------------------------------------------------

    async def _add_own(self, asked: Asked) -> Codes:
        return _as_leaders(await self._own.add_for_leader(_request_of(asked)))

    async def _send(self, coordinator: BrokerId, asked: list[Asked]) -> list[Codes]:
        if coordinator == self._broker_id:
            if len(asked) == 1:
                return [await self._add_own(asked[0])]
            return await asyncio.gather(*map(self._add_own, asked))
        timeout_s = self._configs.broker.int("request.timeout.ms") / 1000
        try:
            connection, version = await self._connected(coordinator, timeout_s)
            if version < VERIFIES_SINCE:
                return [each.all(ErrorCode.none) for each in asked]
            response = await connection.request(
                ApiKey.ADD_PARTITIONS_TO_TXN, version, _request(asked), timeout_s
            )
        except PeerGone as gone:
            log.info("partitions not verified coordinator=%d why=%s", coordinator, gone)
            return [each.all(ErrorCode.network_exception) for each in asked]
        return [_codes(each, response) for each in asked]

    async def _connected(
        self, coordinator: BrokerId, timeout_s: float
    ) -> tuple[AsyncConnection, int]:
        known = self._connections.get(coordinator)
        if known is not None and not known[0].closed:
            return known
        listener = self._configs.broker.inter_broker_listener_name()
        broker = self._metadata.brokers.get(coordinator)
        if broker is None or listener not in broker.endpoints:
            raise PeerGone(f"broker {coordinator} has no listener {listener}")
        host, port = broker.endpoint(listener)
        connection = await self._peers.connect(host, port, str(self._broker_id), timeout_s)
        versions = await connection.versions(timeout_s)
        version = versions.get(ApiKey.ADD_PARTITIONS_TO_TXN, 0)
        self._connections[coordinator] = connection, version
        return connection, version


def joint(waiting: Asked, asked: Asked) -> Asked | None:
    """One question for two about the same transaction; None if they are not.

    They come over several connections: records, offsets, and what is sent again.
    """
    partitions = tuple(dict.fromkeys((*waiting.partitions, *asked.partitions)))
    same = waiting._replace(partitions=partitions)
    return same if same == asked._replace(partitions=partitions) else None


def decide_outlived(waiting: Asked, asked: Asked) -> ErrorCode | None:
    """The code for a question that waits when another of the same id comes; None if it stays.

    A later epoch has fenced it. Epochs of different producer ids say nothing: it is asked again.
    """
    if waiting.producer_id != asked.producer_id or waiting.producer_epoch == asked.producer_epoch:
        return ErrorCode.network_exception
    is_fenced = waiting.producer_epoch < asked.producer_epoch
    return ErrorCode.invalid_producer_epoch if is_fenced else None


def _request_of(asked: Asked) -> AddPartitions:
    """To this broker's coordinator."""
    return AddPartitions(
        asked.transactional_id,
        Producer(asked.producer_id, asked.producer_epoch),
        frozenset(asked.partitions),
        EPOCH_BUMP,
    )


def _request(asked: Iterable[Asked]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(transactions=tuple(map(_transaction, asked)))


def _transaction(asked: Asked) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in asked.partitions:
        topics[topic].append(partition)
    return AddPartitionsToTxnTransaction(
        transactional_id=asked.transactional_id,
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        verify_only=not asked.adds,
        topics=tuple(
            AddPartitionsToTxnTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def _codes(asked: Asked, response: Message) -> Codes:
    """The code of each partition; one that the response lacks was not verified."""
    if response.error_code is not ErrorCode.none:
        return asked.all(ErrorCode.invalid_txn_state)
    found = {
        TopicPartition(topic.name, each.partition_index): each.partition_error_code
        for result in response.results_by_transaction
        if result.transactional_id == asked.transactional_id
        for topic in result.topic_results
        for each in topic.results_by_partition
    }
    missing = ErrorCode.invalid_txn_state
    return {each: _as_leader(found.get(each, missing)) for each in asked.partitions}


def _as_leaders(codes: Codes) -> Codes:
    return {each: _as_leader(code) for each, code in codes.items()}


def _as_leader(code: ErrorCode) -> ErrorCode:
    """Leaders know a fenced producer by its epoch."""
    is_fenced = code is ErrorCode.producer_fenced
    return ErrorCode.invalid_producer_epoch if is_fenced else code
