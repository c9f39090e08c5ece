"""The timing wheel with a million timers, compared with the event loop's `call_later`.

Most delayed requests complete in time, so the main cost is to add and cancel a timer while a
million others wait; the second is a timer that expires. The operations exist beforehand for both
sides: the wheel links them, `call_later` creates a handle for each. Figures are CPU time, so the
wait for the last expiry does not count.
"""

import asyncio
import gc
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import uvloop

from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, Section, ratio_row
from barnabas.purgatory.timer import Timer
from barnabas.purgatory.timing_wheel import TimerTask, TimingWheel

LONG_MS: Final = 60_000  # as of requests, nearly all of which are answered in time
SHORT_MS: Final = 500  # as of fetches, which expire where nothing is produced

NewLoop = Callable[[], asyncio.AbstractEventLoop]


class TimerOperation(TimerTask):
    """Decrements the count when it expires; the last one stops the loop."""

    __slots__ = ("_crowd",)

    def __init__(self, crowd: "Crowd") -> None:
        super().__init__()
        self._crowd = crowd

    def run(self) -> None:
        self._crowd.left -= 1
        if not self._crowd.left:
            self._crowd.loop.stop()


class Crowd:
    """Operations with random timeouts, the same for both sides."""

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int, longest_ms: int) -> None:
        source = random.Random(count)
        self.loop = loop
        self.left = count
        self.pairs = [(TimerOperation(self), source.randint(1, longest_ms)) for _ in range(count)]


Measure = Callable[[Crowd], None]


def wheel_add_cancel(crowd: Crowd) -> None:
    wheel = TimingWheel()
    for operation, timeout_ms in crowd.pairs:
        wheel.add(operation, timeout_ms)
    for operation, _ in crowd.pairs:
        wheel.cancel(operation)


def timer_add_cancel(crowd: Crowd) -> None:
    timer = Timer(crowd.loop)
    for operation, timeout_ms in crowd.pairs:
        timer.add(operation, timeout_ms)
    for operation, _ in crowd.pairs:
        timer.cancel(operation)
    timer.close()


def call_later_add_cancel(crowd: Crowd) -> None:
    call_later = crowd.loop.call_later
    handles = [call_later(ms / 1000, operation.run) for operation, ms in crowd.pairs]
    for handle in handles:
        handle.cancel()
    # asyncio drops the handles that were cancelled only when the loop next turns.
    crowd.loop.call_soon(crowd.loop.stop)
    crowd.loop.run_forever()


def timer_add_expire(crowd: Crowd) -> None:
    timer = Timer(crowd.loop)
    for operation, timeout_ms in crowd.pairs:
        timer.add(operation, timeout_ms)
    crowd.loop.run_forever()


def call_later_add_expire(crowd: Crowd) -> None:
    call_later = crowd.loop.call_later
    for operation, timeout_ms in crowd.pairs:
        call_later(timeout_ms / 1000, operation.run)
    crowd.loop.run_forever()


@dataclass(frozen=True, slots=True)
class Match:
    """Ours and theirs at the same work; `goal` is the minimal speedup."""

    name: str
    longest_ms: int
    ours: Measure
    theirs: Measure
    goal: float


MATCHES: Final = (
    Match("wheel: add + cancel", LONG_MS, wheel_add_cancel, call_later_add_cancel, 2.0),
    Match("timer: add + cancel", LONG_MS, timer_add_cancel, call_later_add_cancel, 1.0),
    Match("timer: add + expire", SHORT_MS, timer_add_expire, call_later_add_expire, 1.0),
)
LOOPS: Final[dict[str, NewLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def nanoseconds(measure: Measure, new_loop: NewLoop, count: int, longest_ms: int) -> float:
    """The CPU time per operation."""
    loop = new_loop()
    crowd = Crowd(loop, count, longest_ms)
    gc.collect()
    start = time.process_time()
    measure(crowd)
    spent = time.process_time() - start
    loop.close()
    return spent / count * 1e9


def timers_section(bench: Bench) -> Section:
    bench.say("timers")
    count = bench.plan.timers
    notes = (
        f"{count:,} pending; CPU time of each; ratio: how many times as fast",
        f"timeouts up to {LONG_MS / 1000:g} s (cancel) and {SHORT_MS / 1000:g} s (expire)",
    )
    rows = [
        _row(f"{match.name}, {loop_name}", match, new_loop, count)
        for match in MATCHES
        for loop_name, new_loop in LOOPS.items()
    ]
    return Section("timers", "Timers", "Barnabas", "call_later", rows, notes)


def _row(name: str, match: Match, new_loop: NewLoop, count: int) -> ReportRow:
    ours = nanoseconds(match.ours, new_loop, count, match.longest_ms)
    theirs = nanoseconds(match.theirs, new_loop, count, match.longest_ms)
    return ratio_row(
        name,
        f"{ours:,.0f} ns",
        f"{theirs:,.0f} ns",
        theirs / ours,
        match.goal,
        ours_ns=ours,
        theirs_ns=theirs,
    )
