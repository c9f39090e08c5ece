"""The replica fetchers of a broker: `num.replica.fetchers` fetch loops for each leader.

A partition always uses the same one of its leader's connections. Topics without an id, as
controllers before Kafka 2.8 create them, have connections of their own.
"""

import asyncio
import logging
import zlib

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.replication.follower.fetch_loop import FetchLoop
from barnabas.replication.follower.fetcher_ports import (
    FetcherPorts,
    FetcherSettings,
    FetcherStatistics,
)
from barnabas.replication.follower.follower_replica import FollowerReplica

__all__ = [
    "FetcherPorts",
    "FetcherSettings",
    "FetcherStatistics",
    "ReplicaFetchers",
]

log = logging.getLogger("barnabas.fetcher")

# The leader, the number of the connection to it, and whether its topics go by their names.
LoopKey = tuple[BrokerId, int, bool]


class ReplicaFetchers:
    """Follows partitions, each until it is stopped; an error of one leaves the others alone.

    Once `stop` has returned, no fetch loop writes to the partition's log any more.
    """

    def __init__(self, ports: FetcherPorts) -> None:
        self._ports = ports
        self._loops: dict[LoopKey, FetchLoop] = {}
        self._tasks: dict[asyncio.Task[None], FetchLoop] = {}
        self._followed: dict[TopicPartition, tuple[FollowerReplica, FetchLoop]] = {}

    @property
    def statistics(self) -> FetcherStatistics:
        return self._ports.statistics

    def follow(self, follower: FollowerReplica, host: str, port: int) -> None:
        """Fetch from the leader at that address; no change if it does so already."""
        partition = follower.topic_partition
        by_name = follower.topic_id is None
        key = (follower.leadership.leader, self._fetcher_of(partition), by_name)
        loop = self._loops.get(key)
        if loop is None or loop.is_over:
            loop = self._loops[key] = FetchLoop(self._ports, *key, host, port)
            self._start(loop)
        known = self._followed.get(partition)
        if known is not None and known[1] is not loop:
            known[1].followings.remove(partition)
        self._followed[partition] = (follower, loop)
        self.statistics.failed.pop(partition, None)
        loop.follow(follower, host, port)

    def stop(self, partition: TopicPartition) -> None:
        """Stop fetching the partition; no error if it was not fetched."""
        self.statistics.failed.pop(partition, None)
        known = self._followed.pop(partition, None)
        if known is not None:
            known[1].followings.remove(partition)

    def resize(self) -> None:
        """Apply the current `num.replica.fetchers`."""
        for follower, loop in list(self._followed.values()):
            self.follow(follower, *loop.address)

    async def close(self) -> None:
        """Stop everything; returns when no loop runs any more."""
        tasks = list(self._tasks)
        self._loops.clear()
        self._followed.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Metrics

    def lags(self) -> dict[TopicPartition, int]:
        """Each partition's lag behind its leader's high watermark in records, where known."""
        return {
            partition: follower.lag
            for partition, (follower, _) in self._followed.items()
            if follower.lag is not None
        }

    # Loops

    def _fetcher_of(self, partition: TopicPartition) -> int:
        number = zlib.crc32(partition.topic.encode()) + partition.partition
        return number % max(1, self._ports.config.fetcher().fetchers)

    def _start(self, loop: FetchLoop, *, after_failure: bool = False) -> None:
        task = asyncio.ensure_future(loop.run(after_failure=after_failure))
        self._tasks[task] = loop
        task.add_done_callback(self._on_ended)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        loop = self._tasks.pop(task)
        key = (loop.leader, loop.fetcher, loop.by_name)
        if self._loops.get(key) is not loop:
            return
        if not task.cancelled() and (error := task.exception()) is not None:
            # A bug of ours; other partitions must not fall behind for good because of it.
            log.error("fetch loop failed leader=%d fetcher=%d", *key[:2], exc_info=error)
            self._start(loop, after_failure=True)
        else:
            del self._loops[key]
