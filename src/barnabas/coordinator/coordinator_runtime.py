"""All shards of one coordinator on this broker: loaded when it leads a partition, then dropped.

led here             log replayed            led elsewhere, or the broker stops
--------->  loading  ------------>  active  ------------------------------------>  dropped
           LOAD_IN_PROGRESS                                             NOT_COORDINATOR
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import Offset, TopicPartition
from barnabas.coordinator.active_shard import ActiveShard, CoordinatorPorts, Shard
from barnabas.coordinator.coordinator_topic import CoordinatorTopic
from barnabas.coordinator.loader import load
from barnabas.coordinator.result import CoordinatorResult, Now, TransactionEnd

Reply = TypeVar("Reply")
# A load that failed is tried again after this.
LOAD_AGAIN_S: Final = 1.0
# How long one wait for the commit of what was loaded lasts.
LOAD_COMMITTED_MS: Final = 1_000


class CoordinatorRuntime(Generic[Shard]):
    """Runs the shards of the partitions that this broker leads."""

    def __init__(
        self,
        topic: CoordinatorTopic,
        new_shard: Callable[[int], Shard],
        ports: CoordinatorPorts,
        emit: Callable[[TopicPartition, object], None] = lambda _, event: None,
    ) -> None:
        """`new_shard` is given the coordinator epoch: the leader epoch of the partition."""
        self._topic = topic
        self._new_shard = new_shard
        self._ports = ports
        self._emit = emit
        self._active: dict[int, ActiveShard[Shard]] = {}
        self._tenures: dict[int, tuple[object, int]] = {}  # with the coordinator epoch
        self._loads: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    # -- requests ------------------------------------------------------------

    def end_transaction(self, partition: int, end: TransactionEnd) -> "asyncio.Future[ErrorCode]":
        """Append an end marker to a partition and apply it; `none` comes with its commit.

        Raises  BrokerError(not_coordinator, coordinator_load_in_progress), or as the append does
        """
        return self._loaded(partition).end_transaction(end)

    async def ask(
        self, partition: int, decide: Callable[[Shard, Now], CoordinatorResult[Reply]]
    ) -> Reply:
        """The reply of the partition's shard, once the records that it rests on are committed.

        Raises  BrokerError(not_coordinator, coordinator_load_in_progress,
                coordinator_not_available)
        """
        return await self._loaded(partition).ask(decide)

    def ask_at_once(
        self, partition: int, decide: Callable[[Shard, Now], CoordinatorResult[Reply]]
    ) -> Reply | None:
        """The reply without a wait, where the partition has no other replica; None, and nothing is
        decided, if that is not so or the shard is not loaded. A reply is never None itself.
        """
        active = self._active.get(partition)
        return None if active is None else active.ask_at_once(decide)

    def replies_at_once(self, partition: int) -> bool:
        active = self._active.get(partition)
        return active is not None and active.replies_at_once

    def known(self, partition: int) -> Shard:
        """The state of a partition that is loaded. With `replays_when_committed` it is committed,
        and a reply that rests on it alone waits for nothing.

        Raises  BrokerError(not_coordinator, coordinator_load_in_progress)
        """
        return self._loaded(partition).shard

    def _loaded(self, partition: int) -> ActiveShard[Shard]:
        active = self._active.get(partition)
        if active is None:
            raise BrokerError(ErrorCode.not_coordinator)
        if not active.is_loaded:
            raise BrokerError(ErrorCode.coordinator_load_in_progress)
        return active

    async def ask_loaded(
        self, decide: Callable[[Shard, Now], CoordinatorResult[None]]
    ) -> list[tuple[TopicPartition, BrokerError]]:
        """Ask every shard that is loaded; returns those that failed, with the error."""
        failed = []
        for active in list(self._active.values()):
            if active.is_loaded:
                try:
                    await active.ask(decide)
                except BrokerError as e:
                    failed.append((active.partition, e))
        return failed

    def run_all(self, decide: Callable[[Shard, Now], CoordinatorResult[None]]) -> None:
        """Perform a decision in every shard, now or as soon as it is loaded."""
        for active in list(self._active.values()):
            active.run(decide)

    def shards(self) -> Sequence[Shard]:
        """All shards.

        Raises  BrokerError(coordinator_load_in_progress), while one of them is being loaded
        """
        if self.loading:
            raise BrokerError(ErrorCode.coordinator_load_in_progress)
        return list(self.loaded())

    def loaded(self) -> Iterable[Shard]:
        return [active.shard for active in self._active.values() if active.is_loaded]

    def shard(self, partition: int) -> Shard | None:
        """The shard of a partition, if it is loaded."""
        active = self._active.get(partition)
        return None if active is None or not active.is_loaded else active.shard

    @property
    def loading(self) -> int:
        """How many shards are being loaded."""
        return sum(not active.is_loaded for active in self._active.values())

    # -- roles ---------------------------------------------------------------

    def on_leader(self, partition: int, tenure: object | None, leader_epoch: int = 0) -> None:
        """This broker leads the partition in this tenure, or does not lead it (None).

        A tenure lasts as long as no other broker leads in between: the shard stays. A shard that
        replays when records are committed is loaded again in each leader epoch.
        """
        if tenure is not None and self._is_same(partition, tenure, leader_epoch):
            return
        self._drop(partition)
        if tenure is not None and not self._is_stopping:
            self._tenures[partition] = (tenure, leader_epoch)
            self._begin(partition, leader_epoch)

    def _is_same(self, partition: int, tenure: object, leader_epoch: int) -> bool:
        known, epoch = self._tenures.get(partition, (None, 0))
        return known is tenure and (epoch == leader_epoch or not self._topic.replays_when_committed)

    def epoch(self, partition: int) -> int | None:
        """The coordinator epoch of a partition's shard; None if there is none here."""
        return self._tenures[partition][1] if partition in self._active else None

    def _drop(self, partition: int) -> None:
        self._tenures.pop(partition, None)
        active = self._active.pop(partition, None)
        if active is None:
            return
        noun, count = self._topic.noun, len(active.shard)
        if count:
            self._log.info("%ss dropped partition=%s %ss=%d", noun, active.partition, noun, count)
        active.resign()

    def _begin(self, partition: int, epoch: int) -> None:
        at = TopicPartition(self._topic.name, partition)
        active = ActiveShard(at, self._topic, self._new_shard(epoch), self._ports, self._emit)
        self._active[partition] = active
        task = asyncio.ensure_future(self._load(active, epoch))
        self._loads.add(task)
        task.add_done_callback(self._on_load_ended)

    async def _load(self, active: ActiveShard[Shard], epoch: int) -> None:
        """Load the shard; a failure is logged, and the load is tried again.

        A DiskFault takes the log directory offline, which drops the shard.
        """
        started_s = asyncio.get_running_loop().time()
        while self._is_wanted(active):
            try:
                count = await self._replay_log(active)
            except (BrokerError, DiskFault) as e:
                if isinstance(e, DiskFault):
                    self._ports.failures.disk_failed(e)
                noun = self._topic.noun
                self._log.warning("%ss not loaded partition=%s why=%s", noun, active.partition, e)
                await asyncio.sleep(LOAD_AGAIN_S)
                active.shard = self._new_shard(epoch)
                continue
            if self._is_wanted(active):
                self._log_loaded(active, count, started_s)
            return

    async def _replay_log(self, active: ActiveShard[Shard]) -> int:
        log = self._ports.writer.log(active.partition)
        if log is None:
            raise BrokerError(ErrorCode.not_leader_or_follower)
        offload = self._ports.offload
        count = await load(log, active.shard, self._topic, lambda: self._is_wanted(active), offload)
        end = log.log_end_offset
        if self._topic.replays_when_committed:
            await self._until_committed(active, end)
        if self._is_wanted(active):
            active.on_loaded(end)
        return count

    async def _until_committed(self, active: ActiveShard[Shard], end: Offset) -> None:
        """Wait until what was loaded is committed: no decision rests on what may be lost."""
        while self._is_wanted(active):
            committed: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
            self._ports.writer.when_committed(
                active.partition, end, LOAD_COMMITTED_MS, committed.set_result
            )
            match await committed:
                case ErrorCode.none:
                    return
                case ErrorCode.request_timed_out:
                    continue
            await asyncio.sleep(LOAD_AGAIN_S)

    def _log_loaded(self, active: ActiveShard[Shard], count: int, started_s: float) -> None:
        noun = self._topic.noun
        self._log.log(
            logging.INFO if count else logging.DEBUG,
            "%ss loaded partition=%s records=%d %ss=%d took_ms=%d",
            noun,
            active.partition,
            count,
            noun,
            len(active.shard),
            1000 * (asyncio.get_running_loop().time() - started_s),
        )

    def _is_wanted(self, active: ActiveShard[Shard]) -> bool:
        return self._active.get(active.partition.partition) is active

    def _on_load_ended(self, task: "asyncio.Task[None]") -> None:
        self._loads.discard(task)
        if not task.cancelled() and (broken := task.exception()) is not None:
            self._ports.failures.fatal(broken)

    async def stop(self) -> None:
        """Drop all shards; waiting requests get NOT_COORDINATOR."""
        self._is_stopping = True
        for partition in list(self._active):
            self._drop(partition)
        # Their connections get a turn to send the replies.
        await asyncio.sleep(0)
        if self._loads:
            await asyncio.wait(self._loads)

    @property
    def _log(self) -> logging.Logger:
        return self._topic.logger
