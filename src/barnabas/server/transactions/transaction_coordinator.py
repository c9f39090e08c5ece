"""The transaction coordinator of this broker: finds coordinators, and asks the shards it leads.

When the outcome of a transaction is committed, the next turn of the loop writes the markers and
completes the transaction. If one has to wait, or is refused, a task goes on: again and again at the
leader of then, until the last one is written.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

from barnabas.base.at_once import at_once
from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.safeguards import Safeguards
from barnabas.base.turns import Turns
from barnabas.coordinator.active_shard import CoordinatorPorts
from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime
from barnabas.coordinator.coordinator_topic import CoordinatorTopic
from barnabas.coordinator.result import CoordinatorResult, Now
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.features import Features
from barnabas.server.cluster.metadata_cache import BrokerImage, MetadataCache
from barnabas.server.cluster.producer_ids import ProducerIds
from barnabas.server.cluster.topic_admin import Topics
from barnabas.server.cluster.topic_creation import NewTopic
from barnabas.server.coordinators.coordinator_finder import CoordinatorFinder
from barnabas.server.coordinators.internal_topics import check_brokers
from barnabas.server.transactions.marker_channels import Marker, MarkerChannels
from barnabas.server.transactions.marker_targets import (
    MarkerOutcome,
    decide_targets,
    outcome_of,
)
from barnabas.server.transactions.marker_writer import Results
from barnabas.server.transactions.transaction_topic import (
    REPLICATION_FACTOR,
    TRANSACTION_TOPIC,
    new_transaction_topic,
)
from barnabas.transactions.shard import TransactionCoordinatorShard
from barnabas.transactions.transaction_messages import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    ProducerReply,
    TransactionSettings,
    WriteMarkers,
)
from barnabas.transactions.transaction_metadata import TransactionMetadata
from barnabas.transactions.transaction_state import TransactionState
from barnabas.wire.records.compression import Codec

Codes: TypeAlias = dict[TopicPartition, ErrorCode]

# Markers that a leader refused, and completions that were not written, are tried again after a
# pause, which doubles each time.
AGAIN_S: Final = 0.1
LONGEST_AGAIN_S: Final = 3.0
# A client that begins while its last transaction is ending waits so long for the end: less than it
# waits before it asks again.
ENDED_WITHIN_S: Final = 0.02
# The code of a partition where one of a request is unknown, by whether this one is known.
_IF_OTHERS_ARE_UNKNOWN: Final = {
    True: ErrorCode.operation_not_attempted,
    False: ErrorCode.unknown_topic_or_partition,
}


class TransactionCoordinator:
    """Coordinates the transactional ids of the partitions of its topic that this broker leads."""

    def __init__(
        self,
        replicas: Replicas,
        metadata: MetadataCache,
        configs: Configs,
        topics: Topics,
        ports: CoordinatorPorts,
        producer_ids: ProducerIds,
        features: Features,
        channels: MarkerChannels,
        safeguards: Safeguards,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._configs = configs
        self._producer_ids = producer_ids
        self._features = features
        self._channels = channels
        self._fences_epochs = safeguards.producer_epoch_fence
        self._clock = ports.clock
        self._failures = ports.failures
        self._started_s = asyncio.get_running_loop().time()
        topic = CoordinatorTopic(
            TRANSACTION_TOPIC,
            "transaction",
            Codec.NONE,
            load_buffer_size=configs.broker.int("transaction.state.log.load.buffer.size"),
            commit_timeout_ms=configs.broker.int("request.timeout.ms"),
            replays_when_committed=True,
            awaits_replicas=safeguards.replicate_before_answer,
        )
        self._log = topic.logger
        self._runtime: CoordinatorRuntime[TransactionCoordinatorShard] = CoordinatorRuntime(
            topic, self._new_shard, ports, self._on_event
        )
        self._finder = CoordinatorFinder(TRANSACTION_TOPIC, metadata, topics, topic.logger)
        self._count = 0  # the partitions of the topic, when first seen
        # The tasks that write markers, by partition and coordinator epoch.
        self._endings: dict[tuple[int, int], set[asyncio.Task[None]]] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}  # the last one of each id
        # Outcomes whose markers are written in the next turn of the loop, behind the response.
        self._due: dict[str, tuple[int, WriteMarkers]] = {}

    def _new_shard(self, epoch: int) -> TransactionCoordinatorShard:
        config = self._configs.broker
        settings = TransactionSettings(
            config.int("transaction.max.timeout.ms"),
            config.int("transactional.id.expiration.ms"),
            config.int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            config.int("transaction.remove.expired.transaction.cleanup.interval.ms"),
            self._fences_epochs,
        )
        return TransactionCoordinatorShard(epoch, settings, self._features.transaction_version)

    # -- requests ------------------------------------------------------------

    async def find(self, key: str, listener: str) -> tuple[BrokerImage, tuple[str, int]]:
        """The broker that coordinates a transactional id, and its address on a listener.

        Raises  BrokerError(coordinator_not_available)
        """
        self._check_count()
        return await self._finder.find(key, listener, self.new_topic)

    def _partition_of(self, transactional_id: str) -> int:
        """Raises  BrokerError(coordinator_not_available), if there is no topic or it has grown."""
        self._check_count()
        return self._finder.partition_of(transactional_id)

    def _check_count(self) -> None:
        """An id would move to another partition with the count, away from its state."""
        topic = self._metadata.topic(TRANSACTION_TOPIC)
        if topic is None:
            return
        count = len(topic.partitions)
        if not self._count:
            self._count = count
        elif count != self._count:
            why = f"{TRANSACTION_TOPIC} had {self._count} partitions and has {count}"
            self._log.error("transactions not served why=%s", why)
            raise BrokerError(ErrorCode.coordinator_not_available, why)

    def new_topic(self) -> NewTopic:
        """The topic to create.

        Raises  BrokerError(coordinator_not_available), while more brokers may join
        """
        config, brokers = self._configs.broker, len(self._metadata.brokers)
        up_s = asyncio.get_running_loop().time() - self._started_s
        check_brokers(TRANSACTION_TOPIC, config, REPLICATION_FACTOR, brokers, up_s)
        return new_transaction_topic(config, brokers)

    async def init(self, request: InitProducer) -> ProducerReply:
        """The producer id and epoch of a producer, once they are committed. Raises BrokerError."""
        return await self._ask_with_id(
            request.transactional_id, lambda shard, now, new: shard.init(request, now, new)
        )

    async def add(self, request: AddPartitions) -> ErrorCode:
        """Add partitions to a transaction. Raises BrokerError."""
        partition = self._partition_of(request.transactional_id)
        reply = await self._runtime.ask(partition, lambda shard, now: shard.add(request, now))
        return reply.error

    def replies_at_once(self, transactional_id: str) -> bool:
        """True where requests of this id wait for no replica, and its shard is loaded."""
        try:
            return self._runtime.replies_at_once(self._partition_of(transactional_id))
        except BrokerError:
            return False

    def add_at_once(self, request: AddPartitions) -> ErrorCode | None:
        """Add partitions; `none` if they are added, which is committed.

        Markers of the last transaction that are due are written first. None, and nothing is
        decided, if they or the request have to wait, or a partition is unknown. A refusal must not
        be asked for again in its stead: its record may have been appended, but not flushed.
        """
        if not all(self._metadata.has_partition(*each) for each in request.partitions):
            return None
        self._end_due(request.transactional_id)
        if request.transactional_id in self._ending:
            return None
        return self._at_once(request.transactional_id, lambda shard, now: shard.add(request, now))

    def end_at_once(self, request: EndTransaction) -> ErrorCode | None:
        """Commit or abort, if that has to wait for nothing; the rest is as in `add_at_once`."""
        return self._at_once(request.transactional_id, lambda shard, now: shard.end(request, now))

    def _at_once(
        self,
        transactional_id: str,
        decide: Callable[[TransactionCoordinatorShard, Now], CoordinatorResult[ProducerReply]],
    ) -> ErrorCode | None:
        try:
            partition = self._partition_of(transactional_id)
        except BrokerError:
            return None
        reply = self._runtime.ask_at_once(partition, decide)
        return None if reply is None or reply.needs_producer_id else reply.error

    async def add_when_ended(self, request: AddPartitions) -> ErrorCode:
        """Add partitions, after a transaction that is about to end. Raises BrokerError.

        Between two transactions the markers of the first are written. A producer that is not
        delayed by the network asks sooner, and would wait for 20 ms after CONCURRENT_TRANSACTIONS.
        """
        self._end_due(request.transactional_id)
        code = await self.add(request)
        ending = self._ending.get(request.transactional_id)
        if code is not ErrorCode.concurrent_transactions or ending is None:
            return code
        await asyncio.wait((ending,), timeout=ENDED_WITHIN_S)
        return await self.add(request)

    async def add_known(
        self, request: AddPartitions, add: Callable[[AddPartitions], Awaitable[ErrorCode]]
    ) -> Codes:
        """Add all partitions, or none: if one is unknown, the others are not attempted."""
        known = await Turns().listed(
            self._metadata.has_partition(*each) for each in request.partitions
        )
        if not all(known):
            codes = (_IF_OTHERS_ARE_UNKNOWN[each] for each in known)
            return dict(zip(request.partitions, codes, strict=True))
        return dict.fromkeys(request.partitions, await add(request))

    async def add_for_leader(self, request: AddPartitions) -> Codes:
        """The answer to a leader that adds its partitions."""
        if not request.transactional_id:
            return dict.fromkeys(request.partitions, ErrorCode.invalid_request)
        try:
            return await self.add_known(request, self.add)
        except BrokerError as e:
            return dict.fromkeys(request.partitions, e.code)

    def verify(self, request: AddPartitions) -> Codes:
        """The answer to a leader: the code of each partition, none if the transaction has it.

        It rests on what is committed, so it waits for nothing.
        """
        if not request.transactional_id:
            return dict.fromkeys(request.partitions, ErrorCode.invalid_request)
        try:
            shard = self._runtime.known(self._partition_of(request.transactional_id))
        except BrokerError as e:
            return dict.fromkeys(request.partitions, e.code)
        return shard.verify(request)

    async def end(self, request: EndTransaction) -> ProducerReply:
        """Commit or abort, once the outcome is committed; markers follow. Raises BrokerError."""
        return await self._ask_with_id(
            request.transactional_id, lambda shard, now, new: shard.end(request, now, new)
        )

    def describe(self, transactional_id: str) -> TransactionMetadata | None:
        """The metadata of an id; None if it has none. Raises BrokerError."""
        return self._runtime.known(self._partition_of(transactional_id)).get(transactional_id)

    def all(self) -> Iterable[TransactionMetadata]:
        """All ids. Raises  BrokerError(coordinator_load_in_progress), while a shard is loaded."""
        return [each for shard in self._runtime.shards() for each in shard]

    async def _ask_with_id(
        self,
        transactional_id: str,
        decide: Callable[
            [TransactionCoordinatorShard, Now, int | None], CoordinatorResult[ProducerReply]
        ],
    ) -> ProducerReply:
        """Ask, and ask again with a new producer id if the decision lacks one."""
        partition = self._partition_of(transactional_id)
        reply = await self._runtime.ask(partition, lambda shard, now: decide(shard, now, None))
        if reply.needs_producer_id:
            await asyncio.sleep(0)  # the tree may need a task, and this may have begun without one
            new = await self._producer_ids.next()
            reply = await self._runtime.ask(partition, lambda shard, now: decide(shard, now, new))
        return reply

    # -- markers -------------------------------------------------------------

    def _on_event(self, partition: TopicPartition, event: object) -> None:
        if not isinstance(event, WriteMarkers):
            return
        name = event.metadata.transactional_id
        self._due[name] = partition.partition, event
        asyncio.get_running_loop().call_soon(self._end_due, name, event)

    def _end_due(self, transactional_id: str, event: WriteMarkers | None = None) -> None:
        """Begin to write the markers of an id that are due: those of `event`, or any.

        Where nothing has to wait, they are written and the transaction is completed on return: it
        takes no task, and nobody has to wait for one of the transaction before.
        """
        due = self._due.get(transactional_id)
        if due is None or (event is not None and due[1] is not event):
            return
        del self._due[transactional_id]
        partition, event = due
        try:
            left = at_once(self._finish(partition, event))
        except Exception as broken:
            self._failures.fatal(broken)
            return
        if left is None:
            self._ending.pop(transactional_id, None)
            return
        task = asyncio.ensure_future(left)
        running = self._endings.setdefault((partition, event.coordinator_epoch), set())
        running.add(task)
        self._ending[transactional_id] = task
        task.add_done_callback(partial(self._on_finished, transactional_id, running))

    def _on_finished(
        self,
        transactional_id: str,
        running: "set[asyncio.Task[None]]",
        task: "asyncio.Task[None]",
    ) -> None:
        running.discard(task)
        if self._ending.get(transactional_id) is task:
            del self._ending[transactional_id]
        if not task.cancelled() and (broken := task.exception()) is not None:
            self._failures.fatal(broken)

    async def _finish(self, partition: int, event: WriteMarkers) -> None:
        """Write all markers of a transaction, then complete it."""
        metadata = event.metadata
        marker = Marker(
            metadata.producer_id,
            metadata.producer_epoch,
            metadata.state is TransactionState.PREPARE_COMMIT,
            event.coordinator_epoch,
            metadata.client_version,
        )

        def complete(
            shard: TransactionCoordinatorShard, now: Now
        ) -> CoordinatorResult[ProducerReply]:
            return shard.complete(metadata, event.coordinator_epoch, now)

        codes = self._channels.write_at_once(marker, metadata.partitions)
        is_written = len(codes) == len(metadata.partitions) and not any(codes.values())
        if not is_written and not await self._write_markers(partition, metadata, marker, codes):
            return
        for pause_s in pauses():
            reply = self._runtime.ask_at_once(partition, complete)
            if reply is None:
                try:
                    reply = await self._runtime.ask(partition, complete)
                except BrokerError:
                    return  # the coordinator that comes next completes it
            if reply.error is not ErrorCode.coordinator_not_available:
                return
            await asyncio.sleep(pause_s)

    async def _write_markers(
        self,
        partition: int,
        metadata: TransactionMetadata,
        marker: Marker,
        codes: Results,
    ) -> bool:
        """Send the markers; return whether every partition has its own in the end.

        `codes` are of those that were written at once, or refused: the latter are due after a
        pause.
        """
        remaining, due = metadata.partitions, metadata.partitions - codes.keys()
        answers = [codes]
        written_at_once = frozenset(each for each, code in codes.items() if code is ErrorCode.none)
        self._on_written(partition, metadata.transactional_id, written_at_once)
        again = pauses()
        while True:
            targets = decide_targets(self._metadata, due)
            if targets.deleted:
                self._log.info(
                    "markers dropped transactional_id=%s partitions=%s why=deleted",
                    metadata.transactional_id,
                    ",".join(map(str, sorted(targets.deleted))),
                )
            written = set(targets.deleted)
            waiting = [
                self._channels.write(leader, marker, partitions)
                for leader, partitions in targets.led.items()
            ]
            # Those of this broker alone are written by now, unless they wait for replicas.
            answers += [await waiting[0]] if len(waiting) == 1 else await asyncio.gather(*waiting)
            for results in answers:
                for each, code in results.items():
                    outcome = outcome_of(code)
                    if outcome is MarkerOutcome.STOP:
                        self._log_stopped(metadata, each, code)
                        return False
                    if outcome is MarkerOutcome.WRITTEN:
                        written.add(each)
            self._on_written(partition, metadata.transactional_id, frozenset(written))
            remaining -= written
            if not remaining:
                return True
            await asyncio.sleep(next(again))
            due, answers = remaining, []

    def _on_written(
        self, partition: int, transactional_id: str, written: frozenset[TopicPartition]
    ) -> None:
        shard = self._runtime.shard(partition)
        if written and shard is not None:
            shard.on_markers(transactional_id, written)

    def _log_stopped(
        self, metadata: TransactionMetadata, at: TopicPartition, code: ErrorCode
    ) -> None:
        self._log.warning(
            "markers stopped transactional_id=%s producer_id=%d epoch=%d partition=%s why=%s",
            metadata.transactional_id,
            metadata.producer_id,
            metadata.producer_epoch,
            at,
            code.name,
        )

    # -- what operators see --------------------------------------------------

    def loaded(self) -> list[TransactionMetadata]:
        """All ids of the shards that are loaded."""
        return [each for shard in self._runtime.loaded() for each in shard]

    def open_transactions(self) -> list[TransactionMetadata]:
        """Those that are not completed, of the shards that are loaded."""
        return [each for shard in self._runtime.loaded() for each in shard.open_transactions()]

    def oldest_ms(self) -> int:
        """How long the oldest open transaction has lasted; 0 without one."""
        starts = [each.start_ms for each in self.open_transactions()]
        return max(0, self._clock.now_ms() - min(starts)) if starts else 0

    @property
    def markers_waiting(self) -> int:
        """How many transactions wait for markers."""
        return len(self._due) + sum(len(tasks) for tasks in self._endings.values())

    @property
    def loading(self) -> int:
        """How many shards are being loaded."""
        return self._runtime.loading

    # -- events --------------------------------------------------------------

    def on_role(self, partition: TopicPartition) -> None:
        """The role of this broker for a partition of the topic may have changed."""
        leader = self._replicas.find(*partition)
        index = partition.partition
        if leader is None:
            self._runtime.on_leader(index, None)
        else:
            self._runtime.on_leader(index, leader.tenure, leader.epoch)
        self._drop_markers(index)

    def _drop_markers(self, partition: int) -> None:
        """Drop the markers of coordinator epochs that ended; others have sent them, or will."""
        current = self._runtime.epoch(partition)
        for key in [key for key in self._endings if key[0] == partition and key[1] != current]:
            for task in self._endings.pop(key):
                task.cancel()
        for name, (index, event) in list(self._due.items()):
            if index == partition and event.coordinator_epoch != current:
                del self._due[name]

    async def stop(self) -> None:
        """Drop all ids and markers; waiting requests get NOT_COORDINATOR."""
        await self._runtime.stop()
        self._due.clear()
        tasks = [task for running in self._endings.values() for task in running]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._channels.close()


def pauses() -> Iterator[float]:
    """The pauses before a request is tried again, in seconds."""
    pause_s = AGAIN_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LONGEST_AGAIN_S)
