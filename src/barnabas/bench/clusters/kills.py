"""The unavailability of a partition after its leader was killed, and its parts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import uvloop

from barnabas.base.ids import TopicPartition
from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow
from barnabas.bench.clusters.bench_cluster import BenchCluster, ClusterBroker, controller_of
from barnabas.bench.clusters.bench_topics import create_topic, delete_topic
from barnabas.bench.clusters.waiting import until, until_led
from barnabas.znodes import paths
from barnabas.znodes.tree import Coordination


@dataclass(frozen=True, slots=True)
class Outage:
    """Seconds from SIGKILL until the session expired, and until a write was acknowledged."""

    expired_s: float
    acknowledged_s: float
    was_controller: bool

    @property
    def ours_s(self) -> float:
        """The share of the controller and the new leader."""
        return self.acknowledged_s - self.expired_s


def kill_rows(bench: Bench, three: BenchCluster) -> list[ReportRow]:
    outages = []
    for number in range(bench.plan.kills):
        bench.say(f"replication: leader killed, {number + 1} of {bench.plan.kills}")
        outages.append(_outage(three, f"killed-{number}", number % 2 == 0))
    timeout_s = three.session_timeout_ms / 1000
    rows = [_row("leader killed: no writes for", outages, timeout_s)]
    for was_controller, who in ((False, "a leader"), (True, "a leader that is the controller")):
        some = [each for each in outages if each.was_controller is was_controller]
        if some:
            rows.append(_rest_row(f"of which after its session ended, {who}", some))
    return rows


def _outage(three: BenchCluster, topic: str, kill_controller: bool) -> Outage:
    controller = uvloop.run(_controller(three))
    victim = next(
        each for each in three.members if (each.broker_id == controller) is kill_controller
    )
    others = [each.broker_id for each in three.members if each is not victim]
    create_topic(three.bootstrap, topic, 1, [victim.broker_id, *others])
    outage = uvloop.run(_measure(three, victim, TopicPartition(topic, 0), kill_controller))
    victim.launch()
    victim.wait_ready()
    delete_topic(three.bootstrap, topic)
    return outage


async def _controller(three: BenchCluster) -> int:
    async with three.tree() as tree:
        return await controller_of(tree)


async def _measure(
    three: BenchCluster, victim: ClusterBroker, partition: TopicPartition, was_controller: bool
) -> Outage:
    async with three.tree() as tree:
        await until_led(three, tree, partition)
        start = time.perf_counter()
        victim.kill()
        expired = await until(lambda: _is_gone(tree, victim), "a killed broker's end")
        acknowledged = await until_led(three, tree, partition, not_by=victim.broker_id)
    return Outage(expired - start, acknowledged - start, was_controller)


async def _is_gone(tree: Coordination, victim: ClusterBroker) -> bool:
    return await tree.exists(paths.broker_path(victim.broker_id)) is None


def _row(name: str, outages: Sequence[Outage], timeout_s: float) -> ReportRow:
    seconds = [each.acknowledged_s for each in outages]
    expired = [each.expired_s for each in outages]
    middle, longest = median(seconds), max(seconds)
    return ReportRow(
        f"{name} (p50, max of {len(outages)})",
        f"{middle:.2f} s, {longest:.2f} s",
        f"session timeout {timeout_s:g} s",
        middle / timeout_s,
        numbers={"p50_s": middle, "max_s": longest, "session_p50_s": median(expired)},
    )


def _rest_row(name: str, outages: Sequence[Outage]) -> ReportRow:
    seconds = [each.ours_s for each in outages]
    middle, longest = median(seconds), max(seconds)
    numbers = {"p50_s": middle, "max_s": longest}
    return ReportRow(name, f"{1000 * middle:.0f} ms, {1000 * longest:.0f} ms", numbers=numbers)
