"""Leaders change, break and err at random while partitions are followed, stopped, and followed.

Whatever was answered too late or to another epoch must leave no trace: in the end each follower's
log is that of its last leader, byte for byte.
"""

import asyncio
import random
from pathlib import Path

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.replication.follower.follower_replica import FollowerReplica
from tests.log.batches import read_all
from tests.replication.following import (
    QUICK,
    Setting,
    on_a_loop,
    open_logs,
    topic_id,
    until,
)
from tests.replication.scripted_leader import Led, ScriptedLeader

PARTITIONS = [TopicPartition(topic, n) for topic in ("orders", "payments") for n in range(3)]
BROKERS = (BrokerId(1), BrokerId(3))


class Chaos:
    """Two brokers that lead in turn, each with a log of its own, and one that follows."""

    def __init__(self, here: Setting, folder: Path, seed: int) -> None:
        self.here = here
        self.source = random.Random(seed)
        self.leaders = {BROKERS[0]: here.leader, BROKERS[1]: ScriptedLeader()}
        self.logs = {BROKERS[0]: here.leader_logs, BROKERS[1]: open_logs(folder / "third")}
        self.epochs = dict.fromkeys(PARTITIONS, 0)
        self.followers: dict[TopicPartition, FollowerReplica] = {}

    async def start(self) -> None:
        await self.leaders[BROKERS[1]].start()
        for broker, leader in self.leaders.items():
            for partition in PARTITIONS:
                identity = topic_id(partition.topic)
                log = self.logs[broker].create(partition, identity, self.here.config)
                leader.add(partition, log, identity, 0)
        for partition in PARTITIONS:
            self.elect(partition)

    async def stop(self) -> None:
        await self.leaders[BROKERS[1]].stop()
        self.logs[BROKERS[1]].release()

    def step(self) -> None:
        partition = self.source.choice(PARTITIONS)
        acts = [self.write, self.elect, self.stop_and_follow, self.err, self.damage, self.shorten]
        self.source.choices(acts, [10, 2, 1, 1, 1, 1])[0](partition)
        if self.source.random() < 0.05:
            self.source.choice([*self.leaders.values()]).break_connections()

    def led(self, partition: TopicPartition) -> Led:
        return self.leaders[self.followers[partition].leadership.leader].led[partition]

    def write(self, partition: TopicPartition) -> None:
        led = self.led(partition)
        for _ in range(self.source.randint(1, 5)):
            led.append(
                self.source.randint(1, 3), self.source.randbytes(self.source.randint(1, 300))
            )
        self.tell()

    def elect(self, partition: TopicPartition) -> None:
        broker = self.source.choice(BROKERS)
        self.epochs[partition] += 1
        self.leaders[broker].led[partition].lead(self.epochs[partition])
        known = self.followers.get(partition)
        self.followers[partition] = self.here.follower(
            partition,
            self.epochs[partition],
            known.high_watermark if known is not None else 0,
            broker,
        )
        self.follow(partition)
        self.tell()

    def follow(self, partition: TopicPartition) -> None:
        follower = self.followers[partition]
        port = self.leaders[follower.leadership.leader].port
        self.here.fetchers.follow(follower, "127.0.0.1", port)

    def stop_and_follow(self, partition: TopicPartition) -> None:
        self.here.fetchers.stop(partition)
        self.follow(partition)

    def err(self, partition: TopicPartition) -> None:
        code = self.source.choice(
            (ErrorCode.not_leader_or_follower, ErrorCode.unknown_leader_epoch)
        )
        self.led(partition).errors.append(code)

    def damage(self, partition: TopicPartition) -> None:
        def harm(records: bytearray) -> None:
            records[-1] ^= 0x55

        self.led(partition).damages.append(harm)

    def shorten(self, partition: TopicPartition) -> None:
        log = self.led(partition).log
        log.delete_records_before(log.log_end_offset)
        self.tell()

    def tell(self) -> None:
        for leader in self.leaders.values():
            leader.tell()

    def is_same(self, partition: TopicPartition) -> bool:
        mine, theirs = self.followers[partition].log, self.led(partition).log
        start = max(mine.log_start_offset, theirs.log_start_offset)
        return mine.log_end_offset == theirs.log_end_offset and (
            read_all(mine, start) == read_all(theirs, start)
        )


@pytest.mark.parametrize("seed", range(6))
@on_a_loop
async def test_in_the_end_every_follower_is_like_its_leader(tmp_path: Path, seed: int) -> None:
    settings = QUICK._replace(fetchers=2, wait_max_ms=50, backoff_ms=3, max_bytes=700)
    async with Setting(tmp_path, settings) as here:
        chaos = Chaos(here, tmp_path, seed)
        await chaos.start()
        try:
            for _ in range(250):
                chaos.step()
                await asyncio.sleep(chaos.source.choice((0, 0, 0.001, 0.004)))
            await until(lambda: all(map(chaos.is_same, PARTITIONS)))
        finally:
            await chaos.stop()
        assert not here.failures.faults
        assert not here.fetchers.statistics.failed
        assert here.fetchers.statistics.truncations > 0
