"""The growth of a cluster's waits with its partitions: stop, start, failovers, reassignment."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

import uvloop

from barnabas.base.errors import PeerGone
from barnabas.base.ids import BrokerId
from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, Section
from barnabas.bench.clusters.bench_cluster import (
    BROKERS,
    BenchCluster,
    ClusterBroker,
    cluster,
    controller_of,
)
from barnabas.bench.clusters.bench_topics import create_topics
from barnabas.bench.clusters.group_members import ask, connected
from barnabas.bench.clusters.probe import Probe, probing
from barnabas.bench.clusters.restart_bench import fill
from barnabas.bench.clusters.waiting import WaitTimedOut, until
from barnabas.client.connection import AsyncConnection
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message, duration
from barnabas.znodes import paths

REPLICAS: Final = 2
PER_TOPIC: Final = 500
# More partitions get no records: 100,000 files would be what is measured.
MOST_WITH_RECORDS: Final = 10_000
LOOKS_EVERY_S: Final = 0.25
# Of one wait. A size that needs longer ends there; what was measured before is reported.
PATIENCE_S: Final = 600.0
PROGRESS_EVERY_S: Final = 10.0
REASSIGNED_AT_ONCE: Final = 5_000


@dataclass(slots=True)
class Growth:
    """Seconds of each wait with this many partitions; None if it was not measured."""

    partitions: int
    stop: float | None = None
    start: float | None = None
    start_after_kill: float | None = None
    broker_failover: float | None = None
    controller_failover: float | None = None
    reassign_all: float | None = None
    metadata: float | None = None
    answer_starting: float | None = None
    answer_metadata: float | None = None
    answer_changing: float | None = None

    @property
    def longest_answer(self) -> float | None:
        """The longest that a peer waited for ApiVersions, whatever went on."""
        each = (self.answer_starting, self.answer_metadata, self.answer_changing)
        return max((seconds for seconds in each if seconds is not None), default=None)

    def note(self, answer: str, seconds: float) -> None:
        """Keep the longest of these answers."""
        setattr(self, answer, max(getattr(self, answer) or 0.0, seconds))


_WAITS: Final = {
    "stop": "SIGTERM to all until all have ended",
    "start": "start of all until every partition has a leader",
    "start_after_kill": "SIGKILL of all, start until every partition has a leader",
    "broker_failover": "a broker's session ended until every partition has a leader",
    "controller_failover": "the controller's session ended until another one leads all",
    "reassign_all": "reassignment of all, until done",
    "metadata": "Metadata of all topics, best of 3",
    "answer_starting": "longest ApiVersions answer during the starts",
    "answer_metadata": "longest ApiVersions answer during Metadata of all topics",
    "answer_changing": "longest ApiVersions answer during reassignment and failovers",
    "longest_answer": "longest ApiVersions answer",
}


def growth_section(bench: Bench) -> Section:
    measured = []
    for partitions in bench.plan.growth_partitions:
        with bench.scratch() as folder, cluster(folder, bench.plan.session_timeout_ms) as three:
            measured.append(_Run(bench, three, partitions).run())
    notes = (
        f"{BROKERS} brokers, {REPLICAS} replicas, topics of {PER_TOPIC} partitions at most; up to"
        f" {MOST_WITH_RECORDS:,} partitions hold a record each, more are empty",
        f"{BROKERS} processes, ZooKeeper and the client share this machine's cores",
        "a failover is counted from the end of the session: the time-out before it is ZooKeeper's",
        "longest ApiVersions answer: as a peer sees it that asks every few ms; no loop was held"
        " longer, and the goal is 50 ms on cores that are free",
    )
    return Section("growth", "Waits with many partitions", "Barnabas", "", _rows(measured), notes)


class _Run:
    """One cluster with so many partitions, through all waits."""

    def __init__(self, bench: Bench, three: BenchCluster, partitions: int) -> None:
        self._bench = bench
        self._three = three
        self._found = Growth(partitions)
        self._said_at = 0.0
        per_topic = min(PER_TOPIC, partitions)
        self._topics = {
            f"growth-{number}": [
                [(partition + n) % BROKERS for n in range(REPLICAS)]
                for partition in range(per_topic)
            ]
            for number in range(partitions // per_topic)
        }

    def run(self) -> Growth:
        try:
            self._measure()
        except WaitTimedOut as late:
            self._say(f"given up: {late}")
        return self._found

    def _measure(self) -> None:
        found, three = self._found, self._three
        self._say("created")
        for name, assignment in self._topics.items():
            create_topics(three.bootstrap, {name: assignment})
        if found.partitions <= MOST_WITH_RECORDS:
            fill(three.bootstrap, self._topics, records=1)
        uvloop.run(self._until_led(three.members))
        with self._probing("answer_metadata", three.members[:1]):
            found.metadata = uvloop.run(self._metadata())
        self._say("restarted")
        start = time.perf_counter()
        three.stop_together(PATIENCE_S)
        found.stop = time.perf_counter() - start
        found.start = self._start()
        for member in three.members:
            member.kill()
        self._say("restarted after SIGKILL")
        # Else the first one would wait for the sessions of its killed self.
        time.sleep(three.session_timeout_ms / 1000)
        found.start_after_kill = self._start()
        with self._probing("answer_changing", three.members):
            self._say("reassigned")
            found.reassign_all = uvloop.run(self._reassign_all())
        found.broker_failover = uvloop.run(self._failover(of_controller=False))
        found.controller_failover = uvloop.run(self._failover(of_controller=True))

    def _say(self, what: str) -> None:
        self._said_at = time.perf_counter()
        self._bench.say(f"growth: {self._found.partitions:,} partitions are {what}")

    def _progress(self, done: int, what: str) -> None:
        """Say how far a wait has got, every ten seconds."""
        now = time.perf_counter()
        if now - self._said_at >= PROGRESS_EVERY_S:
            self._said_at = now
            self._bench.say(f"growth: {done:,} of {self._found.partitions:,} {what}")

    @contextmanager
    def _probing(self, answer: str, members: Sequence[ClusterBroker]) -> Iterator[None]:
        """Note the longest answer of these brokers during the block, also if a wait in it fails."""
        probe: Probe | None = None
        try:
            with probing([member.port for member in members]) as probe:
                yield
        finally:
            if probe is not None and probe.found:
                self._found.note(answer, max(each.longest_s for each in probe.found))

    def _start(self) -> float:
        with self._probing("answer_starting", self._three.members):
            start = time.perf_counter()
            for member in self._three.members:
                member.launch()
            led = uvloop.run(self._until_led(self._three.members))
            for member in self._three.members:
                member.wait_ready(PATIENCE_S)
        return led - start

    async def _until_led(
        self, members: Sequence[ClusterBroker], not_by: BrokerId | None = None
    ) -> float:
        """The time when Metadata of each of these brokers names a leader for each partition."""
        return max(await asyncio.gather(*(self._names_leaders(m.port, not_by) for m in members)))

    async def _names_leaders(self, port: int, not_by: BrokerId | None) -> float:
        async def names_all() -> bool:
            answer = await _metadata_of(port)
            leaders = [p.leader_id for t in answer.topics for p in t.partitions] if answer else []
            self._progress(sum(leader >= 0 for leader in leaders), f"have a leader, says :{port}")
            return (
                len(leaders) >= self._found.partitions
                and min(leaders) >= 0
                and not_by not in leaders
            )

        return await until(names_all, "leaders of all partitions", LOOKS_EVERY_S, PATIENCE_S)

    async def _metadata(self) -> float:
        peer = await connected(self._three.members[0].port)
        spent = []
        try:
            for _ in range(3):
                start = time.perf_counter()
                await ask(peer, ApiKey.METADATA, topics=None)
                spent.append(time.perf_counter() - start)
        finally:
            peer.close()
        return min(spent)

    async def _reassign_all(self) -> float:
        """Move one replica of every partition to the broker that has none."""
        start = time.perf_counter()
        async with self._three.tree() as tree:
            controller = await controller_of(tree)
        peer = await connected(self._three.members[controller].port)
        try:
            for names in self._in_parts():
                await _alter(peer, {name: self._topics[name] for name in names})
            await until(
                lambda: self._is_reassigned(peer), "reassignment of all", LOOKS_EVERY_S, PATIENCE_S
            )
        finally:
            peer.close()
        return time.perf_counter() - start

    async def _is_reassigned(self, peer: AsyncConnection) -> bool:
        answer = await ask(
            peer, ApiKey.LIST_PARTITION_REASSIGNMENTS, timeout=duration(60_000), topics=None
        )
        left = sum(len(topic.partitions) for topic in answer.topics)
        self._progress(self._found.partitions - left, "are reassigned")
        return left == 0

    def _in_parts(self) -> list[list[str]]:
        names, size = list(self._topics), max(1, REASSIGNED_AT_ONCE // PER_TOPIC)
        return [names[at : at + size] for at in range(0, len(names), size)]

    async def _failover(self, *, of_controller: bool) -> float:
        """Kill a broker; return the seconds from the end of its session until all are led again."""
        self._say("without their controller" if of_controller else "without a broker")
        three = self._three
        async with three.tree() as tree:
            controller = await controller_of(tree)
            victim = next(m for m in three.members if (m.broker_id == controller) is of_controller)
            others = [member for member in three.members if member is not victim]
            with self._probing("answer_changing", others):
                victim.kill()
                path = paths.broker_path(victim.broker_id)
                gone = await until(_is_gone(tree.exists, path), "the end of a session")
                led = await self._until_led(others, not_by=victim.broker_id)
        victim.launch()
        await asyncio.to_thread(victim.wait_ready, PATIENCE_S)
        await self._until_led(three.members)
        return led - gone


def _is_gone(
    exists: Callable[[str], Awaitable[object]], path: str
) -> Callable[[], Awaitable[bool]]:
    async def is_gone() -> bool:
        return await exists(path) is None

    return is_gone


async def _metadata_of(port: int) -> Message | None:
    try:
        peer = await connected(port)
    except PeerGone:
        return None
    try:
        return await ask(peer, ApiKey.METADATA, topics=None)
    except PeerGone:
        return None
    finally:
        peer.close()


async def _alter(peer: AsyncConnection, topics: dict[str, list[list[int]]]) -> None:
    await ask(
        peer,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        timeout=duration(60_000),
        topics=tuple(
            SimpleNamespace(
                name=name,
                partitions=tuple(
                    SimpleNamespace(partition_index=index, replicas=tuple(_moved(replicas)))
                    for index, replicas in enumerate(assignment)
                ),
            )
            for name, assignment in topics.items()
        ),
    )


def _moved(replicas: list[int]) -> list[int]:
    """The same leader; the other replica moves to the next broker."""
    return [replicas[0], (replicas[-1] + 1) % BROKERS]


def _rows(measured: Sequence[Growth]) -> list[ReportRow]:
    return [
        _row(f"{found.partitions:,} partitions: {text}", getattr(found, wait))
        for wait, text in _WAITS.items()
        for found in measured
    ]


def _row(name: str, seconds: float | None) -> ReportRow:
    if seconds is None:
        return ReportRow(name, f"not measured, or longer than {PATIENCE_S:.0f} s")
    shown = f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"
    return ReportRow(name, shown, numbers={"seconds": seconds})
