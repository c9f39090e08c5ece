"""The restart of a whole cluster with many partitions: all brokers stop, then all start."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import uvloop
from confluent_kafka import KafkaError, Message, Producer

from barnabas.base.errors import PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.bench.bench_plan import Bench, BenchPlan
from barnabas.bench.bench_report import ReportRow, Section
from barnabas.bench.clusters.bench_cluster import BROKERS, BenchCluster, cluster, controller_of
from barnabas.bench.clusters.bench_topics import client_settings, create_topics
from barnabas.bench.clusters.busy_cores import BUSY_SHARE, Busy, watching
from barnabas.bench.clusters.group_members import ask, connected
from barnabas.bench.clusters.probe import Probed, probing
from barnabas.bench.clusters.waiting import PATIENCE_S, until
from barnabas.bench.limits.clients_bench import RecordsMissing
from barnabas.bench.server_processes import HAS_PROC, settle
from barnabas.wire.apis import ApiKey
from barnabas.znodes import paths
from barnabas.znodes.tree import Coordination

LOOKS_EVERY_S: Final = 0.25  # at all partitions, which is work for those asked
READ_AT_ONCE: Final = 500
RESTARTED_WITHIN_S: Final = 180.0
Topics = dict[str, list[list[int]]]  # the replicas of each partition
VALUE: Final = b"v" * 100


@dataclass(frozen=True, slots=True)
class Restart:
    """Seconds of the stop, then from the start until each event."""

    stopped_s: float
    led_s: float
    in_sync_s: float
    first_acknowledged_s: float
    last_acknowledged_s: float


@dataclass(frozen=True, slots=True)
class Restarted:
    """One broker during the start of all."""

    broker_id: int
    is_controller: bool
    listens_s: float
    busy: Busy
    probed: Probed


def restart_section(bench: Bench) -> Section:
    plan = bench.plan
    topics = _topics(plan)
    partitions = sum(map(len, topics.values()))
    bench.say(f"restart: {partitions:,} partitions are made")
    with bench.scratch() as folder, cluster(folder, plan.session_timeout_ms) as three:
        create_topics(three.bootstrap, topics)
        fill(three.bootstrap, topics, plan.restarted_records)
        uvloop.run(_until_in_sync(three, topics))
        for member in three.members:
            settle(member.server, plan.settle_seconds)
        bench.say(f"restart: of {BROKERS} brokers, {partitions:,} partitions")
        restart, brokers = uvloop.run(_restart(three, topics))
    notes = (
        f"{partitions:,} partitions in {len(topics)} topics, {BROKERS} replicas each; {BROKERS}"
        " processes, ZooKeeper and clients share this machine's cores",
        f"leaders: in Metadata of every broker; in-sync replicas: in ZooKeeper; both are read every"
        f" {1e3 * LOOKS_EVERY_S:.0f} ms",
        "first message: librdkafka, acks=all, one to each topic, handed over as the brokers start",
        "longest ApiVersions answer: as a peer sees it that asks every few ms",
    )
    rows = [
        *_cluster_rows(restart, brokers),
        *(row for each in brokers for row in _broker_rows(each)),
    ]
    return Section("restart", "A whole cluster restarts", "Barnabas", "", rows, notes)


def _topics(plan: BenchPlan) -> Topics:
    """Each broker leads a third of the partitions."""
    assignment = [
        [(partition + n) % BROKERS for n in range(BROKERS)]
        for partition in range(plan.restarted_partitions)
    ]
    return {f"restart-{number}": assignment for number in range(plan.restarted_topics)}


def fill(bootstrap: str, topics: Topics, records: int) -> None:
    """Produce so many records to each partition. Raises RecordsMissing."""
    producer = Producer(client_settings(bootstrap, acks="all"))
    for topic, assignment in topics.items():
        for partition in range(len(assignment)):
            for _ in range(records):
                producer.produce(topic, VALUE, partition=partition)
        producer.poll(0)
    if left := producer.flush(PATIENCE_S):
        raise RecordsMissing(f"{left} messages were not acknowledged")


async def _restart(three: BenchCluster, topics: Topics) -> tuple[Restart, list[Restarted]]:
    since = time.perf_counter()
    await asyncio.to_thread(three.stop_together)
    stopped_s = time.perf_counter() - since
    with probing([member.port for member in three.members]) as probe:
        start = time.perf_counter()
        for member in three.members:
            member.launch()
        with watching([member.server.pid for member in three.members]) as busy:
            first = FirstMessages(three.bootstrap, topics)
            (led, in_sync), _ = await asyncio.gather(
                _until_led_and_in_sync(three, topics),
                until(first.acknowledged, "a message with acks=all", patience_s=RESTARTED_WITHIN_S),
            )
    for member in three.members:
        await asyncio.to_thread(member.wait_ready)
    async with three.tree() as tree:
        controller = await controller_of(tree)
    restart = Restart(
        stopped_s,
        led - start,
        in_sync - start,
        min(first.times) - start,
        max(first.times) - start,
    )
    return restart, [
        Restarted(
            member.broker_id,
            member.broker_id == controller,
            probed.listened_at - start,
            each,
            probed,
        )
        for member, each, probed in zip(three.members, busy, probe.found, strict=True)
    ]


async def _until_led_and_in_sync(three: BenchCluster, topics: Topics) -> tuple[float, float]:
    led = await _until_led(three, topics)
    # Only now: ZooKeeper holds the old state until the controller has updated it.
    return led, await _until_in_sync(three, topics)


async def _until_led(three: BenchCluster, topics: Topics) -> float:
    """The time when the metadata of every broker had a leader for each partition."""
    wanted = sum(map(len, topics.values()))
    return max(await asyncio.gather(*(_names_leaders(each.port, wanted) for each in three.members)))


async def _names_leaders(port: int, wanted: int) -> float:
    async def names_all() -> bool:
        try:
            peer = await connected(port)
        except PeerGone:
            return False
        try:
            answer = await ask(peer, ApiKey.METADATA, topics=None)
        except PeerGone:
            return False
        finally:
            peer.close()
        leaders = [part.leader_id for topic in answer.topics for part in topic.partitions]
        return len(leaders) >= wanted and min(leaders) >= 0

    return await until(names_all, "leaders of all partitions", LOOKS_EVERY_S, RESTARTED_WITHIN_S)


async def _until_in_sync(three: BenchCluster, topics: Topics) -> float:
    """The time when every replica was in its ISR in ZooKeeper."""
    states = [
        paths.partition_state_path(TopicPartition(topic, number))
        for topic, assignment in topics.items()
        for number in range(len(assignment))
    ]
    async with three.tree() as tree:

        async def all_in_sync() -> bool:
            return all([await _are_in_sync(tree, each) for each in batched(states)])

        return await until(all_in_sync, "all replicas in sync", LOOKS_EVERY_S, RESTARTED_WITHIN_S)


def batched(states: list[str]) -> Iterator[list[str]]:
    return (states[at : at + READ_AT_ONCE] for at in range(0, len(states), READ_AT_ONCE))


async def _are_in_sync(tree: Coordination, states: list[str]) -> bool:
    found = await tree.get_many(states)
    return all(each is not None and len(json.loads(each[0])["isr"]) == BROKERS for each in found)


class FirstMessages:
    """Send one message to each topic at once; return the times of their acknowledgements."""

    def __init__(self, bootstrap: str, topics: Topics) -> None:
        # Short client back-offs: the defaults would be longer than the measured time.
        settings = {"acks": "all", "linger.ms": 0, "reconnect.backoff.max.ms": 100}
        self._producer = Producer(client_settings(bootstrap, **settings))
        self._count = len(topics)
        self.times: list[float] = []
        for number, (topic, assignment) in enumerate(topics.items()):
            partition = number % len(assignment)
            self._producer.produce(topic, VALUE, partition=partition, on_delivery=self._delivered)

    async def acknowledged(self) -> bool:
        self._producer.poll(0)
        return len(self.times) == self._count

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise RecordsMissing(f"a message with acks=all: {error}")
        self.times.append(time.perf_counter())


def _cluster_rows(restart: Restart, brokers: Sequence[Restarted]) -> list[ReportRow]:
    listens = [each.listens_s for each in brokers]
    return [
        _row("SIGTERM to all until all have ended", restart.stopped_s),
        ReportRow(
            "start until each broker listens",
            ", ".join(f"{each:.2f} s" for each in listens),
            numbers={"max_s": max(listens)},
        ),
        _row("start until every partition has a leader", restart.led_s),
        _row("start until all replicas are in sync", restart.in_sync_s),
        ReportRow(
            "start until acks=all acknowledged: first, last topic",
            f"{restart.first_acknowledged_s:.2f} s, {restart.last_acknowledged_s:.2f} s",
            numbers={
                "first_s": restart.first_acknowledged_s,
                "last_s": restart.last_acknowledged_s,
            },
        ),
    ]


def _row(name: str, seconds: float) -> ReportRow:
    return ReportRow(name, f"{seconds:.2f} s", numbers={"seconds": seconds})


def _broker_rows(broker: Restarted) -> list[ReportRow]:
    name = f"broker {broker.broker_id}" + (" (controller)" if broker.is_controller else "")
    probed, rows = broker.probed, []
    if HAS_PROC:
        rows.append(_row(f"{name}: CPU time", broker.busy.cpu_s))
        longest = broker.busy.longest_s
        # No number in the JSON without such a period.
        rows.append(
            ReportRow(
                f"{name}: longest stretch above {BUSY_SHARE:.0%} of a core",
                f"{longest:.2f} s",
                numbers={"seconds": longest} if longest else {},
            )
        )
    rows.append(
        ReportRow(
            f"{name}: longest ApiVersions answer of {probed.answers:,}",
            f"{1e3 * probed.longest_s:,.0f} ms",
            numbers={"max_s": probed.longest_s},
        )
    )
    return rows
