"""The catch-up rate of a follower that lost its disk, compared with the raw limits."""

import time
from functools import partial

import uvloop

from barnabas.base.ids import TopicPartition
from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, rate, ratio_row
from barnabas.bench.clusters.bench_cluster import BROKERS, BenchCluster, ClusterBroker, state_of
from barnabas.bench.clusters.bench_topics import create_topic, delete_topic
from barnabas.bench.clusters.waiting import until, until_led
from barnabas.bench.limits.clients_bench import produce_messages
from barnabas.bench.limits.limits_section import measure_limits
from barnabas.bench.limits.load_messages import TOPIC
from barnabas.znodes.tree import Coordination

RECORD_BYTES = 1024
COPIED_AT_ONCE = 1_000_000  # replica.fetch.max.bytes by default
PARTITION = TopicPartition(TOPIC, 0)


def catching_up_rows(bench: Bench, three: BenchCluster) -> list[ReportRow]:
    bench.say("replication: raw limits")
    limits = measure_limits(bench, COPIED_AT_ONCE)
    bench.say("replication: a follower without data")
    create_topic(three.bootstrap, TOPIC, 1, range(BROKERS))
    uvloop.run(_until_served(three))
    produce_messages(three.bootstrap, RECORD_BYTES, bench.plan.caught_up_bytes // RECORD_BYTES)
    lost = three.members[-1]
    uvloop.run(_until_in_sync(three, lost))
    copied = _log_bytes(three.members[0])
    lost.stop()
    lost.wipe()
    start = time.perf_counter()
    lost.launch()
    began, ended = uvloop.run(_copying(three, lost))
    lost.wait_ready()
    delete_topic(three.bootstrap, TOPIC)
    achieved = copied / (ended - began)
    row = ratio_row(
        f"empty follower copies {copied / 1e6:.0f} MB until it is in sync",
        f"{rate(achieved)}, {ended - began:.2f} s",
        f"raw limit {rate(limits.produce)}",
        achieved / limits.produce,
        bytes_per_second=achieved,
        limit_bytes_per_second=limits.produce,
        seconds=ended - began,
        start_up_seconds=began - start,
    )
    return [row]


async def _until_served(three: BenchCluster) -> None:
    async with three.tree() as tree:
        await until_led(three, tree, PARTITION)


async def _until_in_sync(three: BenchCluster, member: ClusterBroker) -> float:
    async with three.tree() as tree:
        return await until(partial(_is_in_sync, tree, member), "a follower in sync")


async def _copying(three: BenchCluster, member: ClusterBroker) -> tuple[float, float]:
    """The times when the follower created its log and when it rejoined the ISR."""

    async def has_log() -> bool:
        return (member.data / str(PARTITION)).is_dir()

    async with three.tree() as tree:
        began = await until(has_log, "the log of an empty follower")
        return began, await until(partial(_is_in_sync, tree, member), "a follower in sync")


async def _is_in_sync(tree: Coordination, member: ClusterBroker) -> bool:
    return member.broker_id in (await state_of(tree, PARTITION)).isr


def _log_bytes(member: ClusterBroker) -> int:
    return sum(file.stat().st_size for file in (member.data / str(PARTITION)).glob("*.log"))
