"""One attack on one system: the others' latency and the broker's memory before, during, after."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from barnabas.bench.attacks.attack import MB, Attack, Happened, Target
from barnabas.bench.attacks.attack_probe import Latency, ProbeRounds, probing
from barnabas.bench.attacks.broker_watch import MemoryWatch, watching_memory
from barnabas.bench.bench_plan import Say
from barnabas.bench.clusters.bench_topics import create_topic
from barnabas.bench.compare.compare_sites import System
from barnabas.bench.server_processes import Server, settle

PROBED: Final = "probed"
QUICK_HOLD_S: Final = 10.0
# Memory is given back when this share of the growth is gone; allocators keep some.
KEPT_SHARE: Final = 0.25
KEPT_BYTES: Final = 24 * MB
# Others are served as before at this multiple of the former p50, or this much above it.
SLOWER: Final = 2.0
SLOWER_S: Final = 0.002
_WINDOW_S: Final = 1.0
_SHORTEST_S: Final = 0.5  # so that others are seen during the shortest attack, too
_LOOKS_EVERY_S: Final = 0.25

Systems = Callable[[Mapping[str, str]], System]


@dataclass(frozen=True, slots=True)
class AttackEffort:
    """The size of a run: quiet seconds before each attack, and the longest wait for recovery."""

    quick: bool
    settle_s: float  # for what a broker defers at its start
    quiet_s: float
    recovery_s: float


FULL: Final = AttackEffort(quick=False, settle_s=3.0, quiet_s=3.0, recovery_s=20.0)
QUICK: Final = AttackEffort(quick=True, settle_s=1.0, quiet_s=1.0, recovery_s=8.0)


@dataclass(frozen=True, slots=True)
class Attacked:
    """The effects of one attack on one broker. Latencies are None if nobody else was served."""

    happened: Happened
    memory_before: int
    memory_most: int
    memory_after: int
    before: Latency | None
    during: Latency | None
    after: Latency | None

    @property
    def gave_back(self) -> bool:
        return is_given_back(self.memory_before, self.memory_most, self.memory_after)

    @property
    def serves_again(self) -> bool:
        return self.before is None or self.after is None or is_as_before(self.before, self.after)


def is_given_back(before: int, most: int, after: int) -> bool:
    return after - before <= max(KEPT_BYTES, KEPT_SHARE * (most - before))


def is_as_before(before: Latency, after: Latency) -> bool:
    allowed = max(SLOWER * before.p50_s, before.p50_s + SLOWER_S)
    return after.rounds > 0 and after.unserved == 0 and after.p50_s <= allowed


def attacked(
    system: System, attack: Attack, effort: AttackEffort, folder: Path, say: Say
) -> Attacked:
    """Start the system, attack it and wait for its recovery; nothing is left running.

    Raises  the failures of `compare_run.FAILURES`, if the attack cannot be performed
    """
    with (
        TemporaryDirectory(prefix="attacked-", dir=folder) as data,
        system.start(Path(data), attack.brokers) as site,
    ):
        count = attack.count(quick=effort.quick)
        hold_s = min(attack.hold_s, QUICK_HOLD_S) if effort.quick else attack.hold_s
        target = Target(site, count, hold_s, say)
        if attack.is_probed:
            create_topic(site.bootstrap, PROBED, 1)
            settle(Server(target.broker.pid, target.port, 0.0), effort.settle_s)
            return watched(attack, target, effort)
        with watching_memory(target.broker) as memory:
            before = memory.now
            happened = attack.perform(target)
            return Attacked(happened, before, memory.most, memory.now, None, None, None)


def watched(attack: Attack, target: Target, effort: AttackEffort) -> Attacked:
    """Perform the attack on a broker that has the topic PROBED, and wait for its recovery."""
    with (
        watching_memory(target.broker) as memory,
        probing([target.port], PROBED) as others,
    ):
        time.sleep(effort.quiet_s)
        begun, before_bytes = time.perf_counter(), memory.now
        before = others.latency(begun - effort.quiet_s, begun)
        happened = attack.perform(target)
        time.sleep(max(0.0, begun + _SHORTEST_S - time.perf_counter()))
        ended = time.perf_counter()
        after = _until_recovered(others, memory, before, before_bytes, effort.recovery_s)
        return Attacked(
            happened,
            before_bytes,
            memory.most,
            memory.now,
            before,
            others.latency(begun, ended),
            after,
        )


def _until_recovered(
    others: ProbeRounds, memory: MemoryWatch, before: Latency, before_bytes: int, patience_s: float
) -> Latency:
    """The latency of the last second, once both are as before or the time is up."""
    start = time.perf_counter()
    while True:
        time.sleep(_LOOKS_EVERY_S)
        now = time.perf_counter()
        last = others.latency(now - _WINDOW_S, now)
        is_over = now - start > patience_s
        if is_over or (
            now - start > _WINDOW_S
            and is_as_before(before, last)
            and is_given_back(before_bytes, memory.most, memory.now)
        ):
            return last
