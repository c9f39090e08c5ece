"""Fetch where a partition has followers: what each kind of reader gets, and when."""

import asyncio
import uuid
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.server.cluster.metadata_cache import BrokerImage
from barnabas.znodes import layout, paths
from tests.replication.leading import F2, F3, ME, leadership
from tests.server.followed import BROKER, follow, lead
from tests.server.raw import SOON, Insight, RawClient, batch, fetch, produce, until, with_broker
from tests.server.test_fetch import offsets, only

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


async def waiting(
    insight: Insight, kind: str, client: RawClient, sent: bytes
) -> "asyncio.Task[Any]":
    purgatory = getattr(insight.delayed, kind)
    before = purgatory.delayed
    task = asyncio.ensure_future(client.ask(sent))
    await until(lambda: purgatory.delayed == before + 1)
    return task


async def filled(insight: Insight, records: int = 3) -> RawClient:
    client = await insight.connect()
    for _ in range(records):
        assert (await client.ask(produce(("orders", 0, batch()), acks=1))) is not None
    return client


# -- who may read how far ----------------------------------------------------


def test_followers_read_all_and_consumers_what_is_committed(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME, F2))
        client = await filled(insight)
        assert offsets(await follow(client, "orders", 0)) == [0, 1, 2]
        for replica in (-1, -2, -3):
            reading = fetch(("orders", 0, 0), replica_id=replica)
            assert offsets(only(await client.ask(reading))) == []
        got = await follow(client, "orders", 2)
        assert (offsets(got), got.high_watermark) == ([2], 2)
        assert offsets(only(await client.ask(fetch(("orders", 0, 0))))) == [0, 1]

    with_broker(tmp_path, scenario, **BROKER)


def test_a_consumer_waits_for_the_high_watermark_and_a_follower_for_the_log(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME, F2))
        producer = await insight.connect()
        consumer, follower = await insight.connect(), await insight.connect()
        reading = fetch(("orders", 0, 0), max_wait_ms=60_000)
        read = await waiting(insight, "consumers", consumer, reading)
        following = fetch(("orders", 0, 0), max_wait_ms=60_000, replica_id=F2, epoch=1)
        followed = await waiting(insight, "followers", follower, following)
        await producer.ask(produce(("orders", 0, batch()), acks=1))
        assert offsets(only(await followed)) == [0]
        assert not read.done()
        again = fetch(("orders", 0, 1), max_wait_ms=60_000, replica_id=F2, epoch=1)
        followed = await waiting(insight, "followers", follower, again)
        assert offsets(only(await read)) == [0]
        followed.cancel()

    with_broker(tmp_path, scenario, **BROKER)


def test_a_leader_alone_in_sync_wakes_both(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME,), replicas=(ME, F2))
        producer = await insight.connect()
        consumer, follower = await insight.connect(), await insight.connect()
        reading = fetch(("orders", 0, 0), max_wait_ms=60_000)
        read = await waiting(insight, "consumers", consumer, reading)
        leader = insight.leader("orders")
        leader.begin_isr_change(leader._in_sync._change_to((ME,)))  # so that none joins
        following = fetch(("orders", 0, 0), max_wait_ms=60_000, replica_id=F2, epoch=1)
        followed = await waiting(insight, "followers", follower, following)
        leader.on_time(10**9, 1)
        await producer.ask(produce(("orders", 0, batch()), acks=1))
        assert offsets(only(await followed)) == [0]
        assert offsets(only(await read)) == [0]

    with_broker(tmp_path, scenario, **BROKER)


@pytest.mark.parametrize("version", [4, 11, 12, 13, 15, 17])
def test_every_version_of_a_followers_fetch_moves_the_high_watermark(
    tmp_path: Path, version: int
) -> None:
    async def scenario(insight: Insight) -> None:
        topic_id = await insight.create("orders")
        leader = lead(insight, "orders", (ME, F2))
        client = await filled(insight)
        topic: str | uuid.UUID = topic_id if version >= 13 else "orders"
        options: dict[str, Any] = {"replica_id": F2}
        if version >= 15:
            schema: Any = import_module(f"kio.schema.fetch.v{version}.request")
            options = {"replica_state": schema.ReplicaState(replica_id=F2, replica_epoch=5)}
        got = only(await client.ask(fetch((topic, 0, 2), version=version, **options)))
        assert (offsets(got), got.high_watermark, leader.high_watermark) == ([2], 2, 2)

    with_broker(tmp_path, scenario, **BROKER)


def test_a_session_makes_progress_in_partitions_that_no_fetch_names(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        leader = lead(insight, "orders", (ME, F2))
        client = await insight.connect()
        full = fetch(("orders", 0, 0), replica_id=F2, epoch=1, session_epoch=0)
        session_id = (await client.ask(full)).session_id
        assert session_id
        (follower,) = leader.followers
        first = follower.last_caught_up_ms
        await until(lambda: asyncio.get_running_loop().time() * 1000 > first)
        await client.ask(fetch(replica_id=F2, session_id=session_id, session_epoch=1))
        assert follower.last_caught_up_ms > first

    with_broker(tmp_path, scenario, **BROKER)


# -- who is refused ----------------------------------------------------------


@pytest.mark.parametrize(
    ("replica", "epoch", "code"),
    [
        (F3, 1, ErrorCode.unknown_leader_epoch),
        (F3, -1, ErrorCode.not_leader_or_follower),
        (F2, 0, ErrorCode.fenced_leader_epoch),
        (F2, 2, ErrorCode.unknown_leader_epoch),
    ],
)
def test_a_follower_that_does_not_belong_here_is_refused_and_not_counted(
    tmp_path: Path, replica: int, epoch: int, code: ErrorCode
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        leader = lead(insight, "orders", (ME, F2))
        client = await filled(insight)
        got = await follow(client, "orders", 3, replica=replica, epoch=epoch)
        assert got.error_code == code
        assert (leader.high_watermark, leader.followers[0].log_end_offset) == (0, -1)

    with_broker(tmp_path, scenario, **BROKER)


def test_a_follower_whose_log_diverged_gets_the_diverging_epoch_and_makes_no_progress(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await filled(insight)  # in epoch 0
        leader = lead(insight, "orders", (ME, F2), epoch=3)
        got = await follow(client, "orders", 3, epoch=3, last_epoch=2)
        assert (got.diverging_epoch.epoch, got.diverging_epoch.end_offset) == (0, 3)
        assert leader.followers[0].log_end_offset == -1
        got = await follow(client, "orders", 9, epoch=3, last_epoch=0)
        assert (got.diverging_epoch.epoch, got.diverging_epoch.end_offset) == (0, 3)
        got = await follow(client, "orders", 9, epoch=3)
        assert got.error_code == ErrorCode.offset_out_of_range
        assert leader.followers[0].log_end_offset == -1
        await follow(client, "orders", 3, epoch=3, last_epoch=0)
        assert leader.high_watermark == 3

    with_broker(tmp_path, scenario, **BROKER)


# -- joining -----------------------------------------------------------------


def test_a_follower_that_caught_up_is_written_down_as_in_sync(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        leader = lead(insight, "orders", (ME,), replicas=(ME, F2))
        client = await filled(insight)
        await follow(client, "orders", 0)
        assert leader.isr == (ME,)
        coordination, told = insight.running.broker.topics._coordination, asyncio.Event()
        await coordination.children(paths.ISR_CHANGE_NOTIFICATION, lambda _: told.set())
        await follow(client, "orders", 3)
        await until(lambda: leader.isr == (ME, F2))
        partition = TopicPartition("orders", 0)
        data, stat = await coordination.get(paths.partition_state_path(partition))
        state = layout.decode_partition_state(partition, data)
        assert (state.isr, state.leader_epoch, state.leader) == ((ME, F2), 1, ME)
        assert stat.version == leader.partition_epoch
        await asyncio.wait_for(told.wait(), SOON)

    with_broker(tmp_path, scenario, **BROKER)


# -- the replica next door ---------------------------------------------------


def racks(insight: Insight, **racks: str) -> None:
    brokers = insight.running.broker.metadata.brokers
    for name, rack in racks.items():
        broker_id = BrokerId(int(name.removeprefix("broker_")))
        brokers[broker_id] = BrokerImage(broker_id, {"PLAINTEXT": ("localhost", 1)}, rack)


def test_a_consumer_is_sent_to_a_replica_in_its_rack(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME, F2, F3))
        racks(insight, broker_1="a", broker_2="b", broker_3="c")
        client = await filled(insight)
        for replica in (F2, F3):
            await follow(client, "orders", 2, replica=replica)

        async def sent_to(rack: str, offset: int = 0, **options: Any) -> tuple[int, list[int]]:
            asked = fetch(("orders", 0, offset), rack_id=rack, max_wait_ms=60_000, **options)
            got = only(await client.ask(asked))
            return got.preferred_read_replica, offsets(got)

        assert await sent_to("b") == (F2, [])
        assert await sent_to("c") == (F3, [])
        assert await sent_to("a") == (-1, [0, 1])
        assert await sent_to("d") == (-1, [0, 1])
        assert await sent_to("") == (-1, [0, 1])
        assert await sent_to("b", replica_id=F2, epoch=1) == (-1, [0, 1, 2])

    with_broker(tmp_path, scenario, **BROKER, replica_selector_class=RACK_AWARE)


def test_a_replica_that_lags_or_has_not_the_offset_is_nobodys_better_one(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME, F2), replicas=(ME, F2, F3))
        racks(insight, broker_1="a", broker_2="b", broker_3="c")
        client = await filled(insight)
        await follow(client, "orders", 1)
        near = only(await client.ask(fetch(("orders", 0, 0), rack_id="c")))
        assert near.preferred_read_replica == -1
        near = only(await client.ask(fetch(("orders", 0, 2), rack_id="b")))
        assert near.preferred_read_replica == -1

    with_broker(tmp_path, scenario, **BROKER, replica_selector_class=RACK_AWARE)


def test_a_follower_serves_consumers_up_to_its_own_high_watermark(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await filled(insight)
        log = insight.leader("orders").log
        told = leadership(TopicPartition("orders", 0), isr=(F2, ME), epoch=4)
        insight.running.broker.replicas.put(FollowerReplica(ME, told, log, 2))
        got = only(await client.ask(fetch(("orders", 0, 0), version=11)))
        assert (got.error_code, offsets(got), got.high_watermark) == (0, [0, 1], 2)
        codes = {
            "before version 11": fetch(("orders", 0, 0), version=10),
            "for followers": fetch(("orders", 0, 0), replica_id=F3),
            "an old epoch": fetch(("orders", 0, 0), epoch=3),
            "beyond the end": fetch(("orders", 0, 4)),
            "not committed": fetch(("orders", 0, 3)),
        }
        told_codes = [only(await client.ask(sent)).error_code for sent in codes.values()]
        assert told_codes == [
            ErrorCode.not_leader_or_follower,
            ErrorCode.not_leader_or_follower,
            ErrorCode.fenced_leader_epoch,
            ErrorCode.offset_out_of_range,
            ErrorCode.none,
        ]

    with_broker(tmp_path, scenario, **BROKER)
