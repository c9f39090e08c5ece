"""The writer of ISR changes: it updates partition states in the tree and notifies the controller.

A leader writes the `state` of its partition with the expected version: it cannot undo a change that
it has not seen. After a version conflict it reads the znode, which decides:

    its own leader epoch     the znode is in force, be it the wanted change (a response was lost)
                             or another writer's
    a newer leader epoch     it was deposed; the change stays pending until the next LeaderAndIsr

After a lost connection the outcome of a write is unknown: the writer retries until the tree
responds. It notifies the controller by a znode under /isr_change_notification, one for all changes
that come shortly after each other.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from barnabas.base.errors import DiskFault, LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.safeguards import IN_FORCE, Safeguards
from barnabas.replication.leader.follower_progress import IsrChange
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import (
    ANY_VERSION,
    BadVersion,
    ConnectionLoss,
    Coordination,
    ZnodeError,
)

log = logging.getLogger("barnabas.isr")

# A change rarely comes alone: one notification covers all changes within this time.
GATHER_S: Final = 0.05
# The least time between two notifications. Kafka waits for five seconds.
ANNOUNCE_EVERY_S: Final = 0.5
# ZooKeeper refuses znodes of a megabyte, and a topic's name may be long.
ANNOUNCED_AT_ONCE: Final = 500
# After a restart thousands of followers join at once: others get their turn between the writes.
WRITTEN_AT_ONCE: Final = 64
FIRST_RETRY_S: Final = 0.1
LAST_RETRY_S: Final = 2.0


class IsrTracker:
    """Shrinks the ISR of leaders with lagging followers, writes changes, and announces them.

    `find` returns the current leader of a partition: a replaced one gets no update. The writer
    calls `changed` when the ISR of a partition, and so perhaps its high watermark, has changed,
    and when a high watermark moved because time has passed.
    """

    def __init__(
        self,
        coordination: Coordination,
        leaders: Iterable[LeaderReplica],
        find: Callable[[str, int], LeaderReplica | None],
        max_lag_ms: Callable[[], int],
        changed: Callable[[TopicPartition], None],
        failures: FailureChannel,
        safeguards: Safeguards = IN_FORCE,
    ) -> None:
        """`leaders` can be iterated repeatedly, and yields the current leaders."""
        self._coordination = coordination
        self._leaders = leaders
        self._find = find
        self._max_lag_ms = max_lag_ms
        self._changed = changed
        self._failures = failures
        self._safeguards = safeguards
        self._tasks: set[asyncio.Task[None]] = set()
        self._submitted: deque[tuple[LeaderReplica, IsrChange]] = deque()
        self._writers = 0
        self._unannounced: dict[TopicPartition, None] = {}
        self._unlogged: dict[str, list[str]] = {}  # written changes by kind
        self._to_announce = asyncio.Event()
        self._stopping = asyncio.Event()
        self.shrinks = 0
        self.expands = 0
        self.failed_updates = 0

    def start(self) -> None:
        self._spawn(self._shrink_regularly())
        self._spawn(self._announce_always())

    async def stop(self) -> None:
        """Stop all tasks; a change under way may or may not be written."""
        self._stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._supervised(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _supervised(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LawBroken as broken:
            self._failures.fatal(broken)

    # -- shrinking -----------------------------------------------------------

    async def _shrink_regularly(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._max_lag_ms() / 2000)
            self.shrink(loop.time() * 1000)

    def shrink(self, now_ms: float) -> None:
        """Remove every follower that lags for too long from the ISR."""
        max_lag_ms = self._max_lag_ms()
        for leader in self._leaders:
            if leader.is_sole:
                continue
            if leader.on_time(now_ms, max_lag_ms):
                self._changed(leader.topic_partition)
            change = leader.decide_shrink(now_ms, max_lag_ms)
            if change is not None:
                leader.begin_isr_change(change)
                self.submit(leader, change)

    # -- writing -------------------------------------------------------------

    def submit(self, leader: LeaderReplica, change: IsrChange) -> None:
        """Write a change that the leader has begun to the tree."""
        self._submitted.append((leader, change))
        if self._writers < WRITTEN_AT_ONCE:
            self._writers += 1
            self._spawn(self._write_submitted())

    async def _write_submitted(self) -> None:
        """Write one change after the other, and let others have their turn after each."""
        try:
            while self._submitted:
                await self._commit(*self._submitted.popleft())
                await asyncio.sleep(0)
        finally:
            self._writers -= 1

    async def _commit(self, leader: LeaderReplica, change: IsrChange) -> None:
        retry_s = FIRST_RETRY_S
        while self._find(*change.topic_partition) is leader:
            try:
                isr, partition_epoch = await self._write(change)
            except ConnectionLoss:
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, LAST_RETRY_S)
                continue
            except (ZnodeError, DiskFault, _Deposed) as e:
                self.failed_updates += 1
                log.warning(
                    "isr not changed partition=%s isr=%s wanted=%s why=%s",
                    change.topic_partition,
                    _listed(change.before),
                    _listed(change.isr),
                    e,
                )
                return
            self._written(leader, change, isr, partition_epoch)
            return

    async def _write(self, change: IsrChange) -> tuple[tuple[BrokerId, ...], int]:
        """Try to write; return the ISR that the tree holds afterwards, and its version.

        Raises  ConnectionLoss: unknown; _Deposed, ZnodeError, DiskFault: not ours to write any more
        """
        path = paths.partition_state_path(change.topic_partition)
        wanted = layout.LeaderAndIsr(
            change.leader, change.leader_epoch, change.controller_epoch, change.isr
        )
        known = change.partition_epoch if self._safeguards.isr_version_check else ANY_VERSION
        try:
            stat = await self._coordination.set(path, layout.encode_partition_state(wanted), known)
            return change.isr, stat.version
        except BadVersion:
            data, stat = await self._coordination.get(path)
        found = layout.decode_partition_state(change.topic_partition, data)
        if (found.leader, found.leader_epoch) != (change.leader, change.leader_epoch):
            raise _Deposed(f"broker {found.leader} leads in epoch {found.leader_epoch}")
        return found.isr, stat.version

    def _written(
        self, leader: LeaderReplica, change: IsrChange, isr: tuple[BrokerId, ...], version: int
    ) -> None:
        # Another leader replaced it meanwhile: that one reads the tree itself.
        if self._find(*change.topic_partition) is not leader:
            return
        if isr != change.isr:
            self.failed_updates += 1
        elif change.is_shrink:
            self.shrinks += 1
        else:
            self.expands += 1
        kind = "taken over" if isr != change.isr else "shrunk" if change.is_shrink else "expanded"
        self._unlogged.setdefault(kind, []).append(
            f"partition={change.topic_partition} from={_listed(change.before)} to={_listed(isr)} "
            f"partition_epoch={version} high_watermark={leader.high_watermark} "
            f"end={leader.log.log_end_offset}"
        )
        leader.apply_isr(isr, version)
        self._unannounced[change.topic_partition] = None
        self._to_announce.set()
        self._changed(change.topic_partition)

    # -- announcing ----------------------------------------------------------

    async def _announce_always(self) -> None:
        while True:
            await self._to_announce.wait()
            await asyncio.sleep(GATHER_S)
            self._to_announce.clear()
            self._log_changes()
            partitions, self._unannounced = list(self._unannounced), {}
            for first in range(0, len(partitions), ANNOUNCED_AT_ONCE):
                await self._announce(partitions[first : first + ANNOUNCED_AT_ONCE])
            await asyncio.sleep(ANNOUNCE_EVERY_S)

    def _log_changes(self) -> None:
        """Log one line for all changes of a kind: a restart concerns most partitions."""
        for kind, changes in self._unlogged.items():
            if len(changes) == 1:
                log.info("isr %s %s", kind, changes[0])
            else:
                log.info("isrs %s count=%d first: %s", kind, len(changes), changes[0])
            for change in changes[1:]:
                log.debug("isr %s %s", kind, change)
        self._unlogged.clear()

    async def _announce(self, partitions: list[TopicPartition]) -> None:
        """Notify the controller; again if the outcome of the first write is unknown."""
        retry_s = FIRST_RETRY_S
        while True:
            try:
                await self._coordination.create(
                    paths.ISR_CHANGE,
                    layout.encode_partitions(partitions),
                    sequential=True,
                    make_parents=True,
                )
                return
            except ConnectionLoss:
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, LAST_RETRY_S)
            except (ZnodeError, DiskFault) as e:
                # In a new session the controller reads all partition states again.
                log.warning("isr changes not announced partitions=%d why=%s", len(partitions), e)
                return


class _Deposed(Exception):
    """The tree holds a newer leader epoch."""


def _listed(isr: Iterable[int]) -> str:
    return ",".join(map(str, isr))
