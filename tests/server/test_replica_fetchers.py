"""Fetchers against the broker itself: what is produced is committed because they copy it."""

import asyncio
from pathlib import Path

from barnabas.base.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from barnabas.base.offload import InlineOffload
from barnabas.log.background_work import Removal
from barnabas.replication.follower.fetcher import FetcherPorts, FetcherSettings, ReplicaFetchers
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.leadership import Leadership
from barnabas.replication.replication_throttle import ReplicationThrottle
from tests.log.batches import CONFIG
from tests.replication.following import QUICK, StoppedClock, bytes_of, open_logs
from tests.replication.leading import F2, ME
from tests.server.followed import BROKER, lead
from tests.server.raw import Insight, batch, produce, until, with_broker
from tests.support.recorded_failures import RecordedFailures

ORDERS = TopicPartition("orders", 0)


class SecondBroker:
    """Follows the broker under test."""

    def __init__(self, folder: Path) -> None:
        self.epoch = -1
        self.logs = open_logs(folder)
        self.fetchers = ReplicaFetchers(
            FetcherPorts(
                broker_id=F2,
                logs=self.logs,
                clock=StoppedClock(),
                offload=InlineOffload(),
                throttle=ReplicationThrottle(F2, asyncio.get_running_loop().time),
                config=self,
                registration=self,
                removals=self,
                delayed=self,
                failures=RecordedFailures(expects_none=True),
            )
        )

    def fetcher(self) -> FetcherSettings:
        return QUICK

    def remove_later(self, removal: Removal) -> None:
        removal.run()

    def on_high_watermark(self, key: tuple[str, int]) -> None: ...

    def follow(self, insight: Insight, epoch: int) -> FollowerReplica:
        image = insight.running.broker.metadata.topic("orders")
        assert image is not None
        log = self.logs.get(ORDERS) or self.logs.create(ORDERS, image.topic_id, CONFIG)
        replicas: tuple[BrokerId, ...] = (ME, F2)
        leadership = Leadership(
            ORDERS, image.topic_id, ME, LeaderEpoch(epoch), replicas, 0, replicas, 7
        )
        follower = FollowerReplica(F2, leadership, log, 0)
        self.fetchers.follow(follower, *insight.address)
        return follower

    async def close(self) -> None:
        await self.fetchers.close()
        self.logs.release()


def test_acks_all_is_answered_once_a_follower_has_copied_it(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        leader = lead(insight, "orders", (ME, F2))
        second = SecondBroker(tmp_path / "second")
        follower = second.follow(insight, epoch=1)
        client = await insight.connect()
        for _ in range(20):
            answer = await client.ask(produce(("orders", 0, batch()), acks=-1))
            assert answer.responses[0].partition_responses[0].error_code == 0
        assert leader.high_watermark == 20
        assert bytes_of(follower.log) == bytes_of(leader.log)
        await until(lambda: follower.high_watermark == 20)
        await second.close()

    with_broker(tmp_path / "first", scenario, **BROKER)


def test_a_follower_that_led_meanwhile_gives_up_what_it_wrote(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        leader = lead(insight, "orders", (ME, F2))
        second = SecondBroker(tmp_path / "second")
        follower = second.follow(insight, epoch=1)
        client = await insight.connect()
        await client.ask(produce(("orders", 0, batch()), acks=-1))
        second.fetchers.stop(ORDERS)
        for _ in range(5):
            wrong = memoryview(bytearray(batch(b"never committed")))
            follower.log.append_as_follower(_stamped(wrong, follower.log.log_end_offset), 0)
        leader = lead(insight, "orders", (ME,), replicas=(ME, F2), epoch=3)
        await client.ask(produce(("orders", 0, batch(b"right")), acks=-1))
        again = second.follow(insight, epoch=3)
        await until(lambda: bytes_of(again.log) == bytes_of(leader.log))
        assert second.fetchers.statistics.truncations == 1
        leader.delete_records_before(Offset(1))
        insight.delayed.on_log_start(("orders", 0))
        await until(lambda: again.log.log_start_offset == 1)
        await second.close()

    with_broker(tmp_path / "first", scenario, **BROKER)


def _stamped(records: memoryview, offset: int) -> memoryview:
    """As a leader of epoch 2 would write them."""
    records[:8] = offset.to_bytes(8, "big")
    records[12:16] = (2).to_bytes(4, "big")
    return records
