"""A broker that follows, on a loop of its own: its logs, its fetchers, and what it was told."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import ParamSpec
from uuid import UUID

from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.base.offload import InlineOffload, T
from barnabas.base.randomness import Random
from barnabas.base.safeguards import Safeguards
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import RealDisk
from barnabas.log.background_work import Removal
from barnabas.log.log import Log
from barnabas.log.logs import Logs
from barnabas.replication.follower.fetcher import (
    FetcherPorts,
    FetcherSettings,
    ReplicaFetchers,
)
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.leadership import Leadership
from barnabas.replication.replication_throttle import ReplicationThrottle
from tests.log.batches import CONFIG, NOW
from tests.replication.scripted_leader import Led, ScriptedLeader
from tests.support.recorded_failures import RecordedFailures

P = ParamSpec("P")

LEADER, FOLLOWER = BrokerId(1), BrokerId(2)
ORDERS = TopicPartition("orders", 0)
QUICK = FetcherSettings(wait_max_ms=300, backoff_ms=10, socket_timeout_ms=5000)


class StoppedClock:
    def now_ms(self) -> int:
        return NOW


def on_a_loop(test: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    """Run a test on an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(5000):
        if holds():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not come to pass")


def open_logs(folder: Path, config: TopicConfig = CONFIG) -> Logs:
    logs = Logs([RealDisk(str(folder))], clock=StoppedClock(), random=Random(3))
    logs.acquire(BrokerId(0), "cluster")
    logs.open_all(lambda _: config)
    return logs


def bytes_of(log: Log) -> bytes:
    """All that the segments hold, whole and in order."""
    return b"".join(segment.file.read(0, segment.size) for segment in log.segments)


def topic_id(topic: str) -> UUID:
    return UUID(bytes=topic.encode().ljust(16, b"-")[:16])


class WatchedOffload(InlineOffload):
    """Lets a test do something on the loop before the work is done."""

    def __init__(self) -> None:
        self.before: Callable[[], None] = lambda: None

    async def __call__(self, work: Callable[[], T], /) -> T:
        self.before()
        return await super().__call__(work)


class Setting:
    """One scripted leader and one follower; `close` ends both."""

    def __init__(
        self,
        folder: Path,
        settings: FetcherSettings = QUICK,
        safeguards: Safeguards | None = None,
        config: TopicConfig = CONFIG,
    ) -> None:
        self.settings = settings
        self.epoch = 5
        self.config = config
        self.leader_logs = open_logs(folder / "leader", config)
        self.logs = open_logs(folder / "follower", config)
        self.leader = ScriptedLeader()
        self.offload = WatchedOffload()
        self.failures = RecordedFailures()
        self.moved: list[TopicPartition] = []
        self.on_moved: Callable[[TopicPartition], None] = self.moved.append
        self.throttle = ReplicationThrottle(FOLLOWER, asyncio.get_running_loop().time)
        self.fetchers = ReplicaFetchers(
            FetcherPorts(
                broker_id=FOLLOWER,
                logs=self.logs,
                clock=StoppedClock(),
                offload=self.offload,
                throttle=self.throttle,
                config=self,
                registration=self,
                removals=self,
                delayed=self,
                failures=self.failures,
                safeguards=safeguards or Safeguards(),
            )
        )

    def fetcher(self) -> FetcherSettings:
        return self.settings

    def remove_later(self, removal: Removal) -> None:
        removal.run()

    def on_high_watermark(self, key: tuple[str, int]) -> None:
        self.on_moved(TopicPartition(*key))

    async def __aenter__(self) -> "Setting":
        await self.leader.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.fetchers.close()
        await self.leader.stop()
        assert not self.failures.broken
        self.leader_logs.release()
        self.logs.release()

    def lead(self, partition: TopicPartition = ORDERS, epoch: int = 0) -> Led:
        identity = topic_id(partition.topic)
        log = self.leader_logs.create(partition, identity, self.config)
        return self.leader.add(partition, log, identity, epoch)

    def follower(
        self,
        partition: TopicPartition = ORDERS,
        epoch: int = 0,
        high_watermark: int = 0,
        leader: BrokerId = LEADER,
    ) -> FollowerReplica:
        identity = topic_id(partition.topic)
        log = self.logs.get(partition) or self.logs.create(partition, identity, self.config)
        leadership = Leadership(
            partition,
            identity,
            leader,
            LeaderEpoch(epoch),
            (leader,),
            0,
            (leader, FOLLOWER),
            1,
        )
        return FollowerReplica(FOLLOWER, leadership, log, high_watermark)

    def follow(self, follower: FollowerReplica) -> FollowerReplica:
        self.fetchers.follow(follower, "127.0.0.1", self.leader.port)
        return follower

    async def caught_up(self, *led: Led) -> None:
        """Until the follower has all that the leader has, and nothing else."""
        await until(lambda: all(map(self._is_same, led or self.leader.led.values())))

    def _is_same(self, led: Led) -> bool:
        mine = self.logs.get(led.log.partition)
        return mine is not None and bytes_of(mine) == bytes_of(led.log)


def fill_led(led: Led, batches: int) -> None:
    for _ in range(batches):
        led.append(1, b"value" * 10)
