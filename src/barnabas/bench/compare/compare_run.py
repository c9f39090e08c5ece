"""Alternating runs of the cases on two systems, and the ratios of their figures.

Each round runs all cases, until each case has its rounds or the time is up. So a case is measured
at several times, and the duration of the run is known in advance.
"""

import os
import subprocess
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from confluent_kafka import KafkaException

from barnabas.base.errors import ConfigError, PeerGone
from barnabas.bench.bench_plan import Say
from barnabas.bench.clusters.group_members import GroupFailed
from barnabas.bench.clusters.waiting import WaitTimedOut
from barnabas.bench.compare.client_driver import ClientFailed
from barnabas.bench.compare.compare_cases import Case, CaseMetric, Effort, Turns
from barnabas.bench.compare.compare_cold import StillCached
from barnabas.bench.compare.compare_sites import Site, System
from barnabas.bench.compare.median_interval import Interval, Verdict, judged, median_interval
from barnabas.bench.compare.signals import signalled_once
from barnabas.bench.limits.clients_bench import RecordsMissing
from barnabas.bench.limits.load_generator import LoadFailed
from barnabas.bench.limits.native_build import NoCompiler
from barnabas.bench.server_processes import ServerFailed

# Failures of a system under test; any other exception is a bug of the bench.
FAILURES: Final = (
    ArithmeticError,
    BufferError,
    ClientFailed,
    ConfigError,
    GroupFailed,
    KafkaException,
    LoadFailed,
    LookupError,
    NoCompiler,
    WaitTimedOut,
    OSError,
    PeerGone,
    RecordsMissing,
    ServerFailed,
    StillCached,
    ValueError,
    subprocess.SubprocessError,
)
MOST_FAILURES: Final = 2  # of one case, before it is left
WarmUp = Callable[[Site], None]


@dataclass(slots=True)
class Compared:
    """One row: the figures of both systems by round; empty if no round succeeded.

    `turns`: the ratios of all pairs of turns, of all rounds, where the figures of turns are known.
    """

    metric: CaseMetric
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round, in which both were measured one after the other."""
        return [a / b for a, b in zip(self.ours, self.theirs, strict=True) if b]

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def pairs(self) -> list[float]:
        """The ratios of what was measured one right after the other: turns, or rounds."""
        return self.turns or self.ratios

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval for the median of the pairs; None with too few of them."""
        return median_interval(self.pairs)

    @property
    def verdict(self) -> Verdict | None:
        """The goal as judged by the interval; None without a goal or an interval."""
        if self.metric.goal is None or self.interval is None:
            return None
        return judged(self.interval, self.metric.goal, self.metric.less)

    @property
    def met(self) -> bool | None:
        """True if the displayed ratio meets the goal; None without a goal or a ratio."""
        if self.metric.goal is None or not self.ratios:
            return None
        return self._reaches(self.ratio)

    @property
    def rounds_met(self) -> int:
        return sum(map(self._reaches, self.ratios))

    def _reaches(self, ratio: float) -> bool:
        shown, goal = round(ratio, 2), self.metric.goal
        if goal is None:
            return False
        return shown <= goal if self.metric.less else shown >= goal


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows, and one line per failure."""

    ours: str
    theirs: str
    rows: Sequence[Compared]
    failures: Sequence[str]
    interrupted: bool = False


@dataclass(slots=True)
class _Course:
    """A case in progress: its rows so far, and the duration of its last round."""

    case: Case
    rows: list[Compared]
    failed: int = 0
    took_s: float = 0.0

    @property
    def rounds(self) -> int:
        return len(self.rows[0].ours)


def expected_seconds(cases: Sequence[Case], effort: Effort) -> float:
    """The estimated time of all rounds on two idle cores."""
    return sum(case.expected_s(effort) * case.rounds(effort) for case in cases)


def compare(
    ours: System,
    theirs: System,
    cases: Sequence[Case],
    effort: Effort,
    folder: Path,
    say: Say,
    warm_up: WarmUp = lambda site: None,
) -> Comparison:
    """Run the cases on both systems, in an order that alternates with the rounds. A shared cluster
    is warmed up before its first case.

    Every case has at least one round, and no round starts that would not end in time. A failure is
    reported and stops no other case. A signal ends the run: the figures so far are returned, and
    nothing is left running.
    """
    courses = [_Course(case, [Compared(metric) for metric in case.metrics]) for case in cases]
    failures: list[str] = []
    interrupted = False
    try:
        with signalled_once():
            _run(courses, (ours, theirs), effort, _Clusters(folder, warm_up), failures, say)
    except (KeyboardInterrupt, SystemError):
        # The Kafka client makes a SystemError of a signal that hits one of its calls.
        interrupted = True
    rows = [
        row
        for course in courses
        for row in course.rows
        if row.ours or not interrupted  # what nobody came to is no news then
    ]
    return Comparison(ours.name, theirs.name, rows, failures, interrupted)


def _run(
    courses: Sequence[_Course],
    systems: tuple[System, System],
    effort: Effort,
    clusters: "_Clusters",
    failures: list[str],
    say: Say,
) -> None:
    shared = next((course.case for course in courses if not course.case.fresh), None)
    if shared is not None:
        _make_ready(shared, systems, clusters, failures, say)
    start = time.perf_counter()
    expected = expected_seconds([course.case for course in courses], effort)
    done = 0.0
    # Those that share a cluster first: it is gone when others start clusters of their own.
    for fresh in (False, True):
        part = [course for course in courses if course.case.fresh is fresh]
        done += expected_seconds([course.case for course in part], effort)
        share = done / expected if expected else 1.0
        until = start + (60 * effort.minutes * share if effort.minutes else float("inf"))
        try:
            for number in range(effort.repeat + MOST_FAILURES):
                for course in part:
                    if _is_due(course, effort, until):
                        _round(course, number, systems, effort, clusters, failures, say)
        finally:
            for system in systems:
                _clear(partial(clusters.end, system), f"at the end, {system.name}", failures)


def _make_ready(
    case: Case,
    systems: Sequence[System],
    clusters: "_Clusters",
    failures: list[str],
    say: Say,
) -> None:
    """Start and warm up the shared clusters of a case outside of its rounds."""
    for system in systems:
        say(f"warming up: {system.name}")
        try:
            with clusters.one_for(case, system):
                pass
        except FAILURES as problem:
            failures.append(_told(problem, f"warming up, {system.name}"))
            _clear(partial(clusters.end, system), f"warming up, {system.name}", failures)


def _is_due(course: _Course, effort: Effort, until: float) -> bool:
    if course.rounds >= course.case.rounds(effort) or course.failed >= MOST_FAILURES:
        return False
    return course.rounds == 0 or time.perf_counter() + course.took_s < until


def _round(
    course: _Course,
    number: int,
    systems: tuple[System, System],
    effort: Effort,
    clusters: "_Clusters",
    failures: list[str],
    say: Say,
) -> None:
    case, start = course.case, time.perf_counter()
    values: dict[int, Sequence[float]] = {}
    begun: dict[int, Turns] = {}
    turns: tuple[list[Sequence[float]], list[Sequence[float]]] = [], []
    waiting = deque((0, 1) if number % 2 == 0 else (1, 0))
    try:
        while waiting:
            index = waiting.popleft()
            system = systems[index]
            if index not in begun:
                about = f"round {course.rounds + 1} of {case.rounds(effort)}"
                say(f"{case.key}: {system.name}, {about}")
                os.sync()  # what ran before has nothing left for the disk that would hold this up
            with clusters.one_for(case, system) as site:
                if index not in begun:
                    begun[index] = _in_turns(case.measure(site, effort))
                if (found := _turn(begun[index], turns[index])) is None:
                    waiting.append(index)
                else:
                    values[index] = found
    except FAILURES as problem:
        what = f"{case.key}, {system.name}"
        failures.append(_told(problem, what))
        course.failed += 1
        _clear(partial(clusters.end, system), what, failures)
        return
    finally:
        for index, work in begun.items():
            what = f"{case.key}, {systems[index].name}"
            if not _clear(work.close, what, failures):
                _clear(partial(clusters.end, systems[index]), what, failures)
    for row, ours, theirs in zip(course.rows, values[0], values[1], strict=True):
        row.ours.append(ours)
        row.theirs.append(theirs)
    for first, second in zip(*turns, strict=False):  # the faster system has more turns
        for row, ours, theirs in zip(course.rows, first, second, strict=True):
            if theirs:
                row.turns.append(ours / theirs)
    course.took_s = time.perf_counter() - start


def _clear(step: Callable[[], None], what: str, failures: list[str]) -> bool:
    """Run a cleanup step; report a failure and return whether it succeeded."""
    try:
        step()
    except FAILURES as problem:
        failures.append(_told(problem, what))
        return False
    return True


def _told(problem: Exception, what: str) -> str:
    said = " ".join(str(problem).split()) or type(problem).__name__
    return f"{what}: {said}"


def _in_turns(work: Sequence[float] | Turns) -> Turns:
    return (yield from work) if isinstance(work, Generator) else work


def _turn(work: Turns, turns: list[Sequence[float]]) -> Sequence[float] | None:
    """The figures of all turns, if that was the last; those of one turn are kept in `turns`."""
    try:
        figures = next(work)
    except StopIteration as over:
        found: Sequence[float] = over.value
        return found
    if figures is not None:
        turns.append(figures)
    return None


class _Clusters:
    """The running clusters: one per system shared by cases, or one for a single case."""

    def __init__(self, folder: Path, warm_up: WarmUp) -> None:
        self._folder = folder
        self._warm_up = warm_up
        self._shared: dict[str, tuple[ExitStack, Site]] = {}

    @contextmanager
    def one_for(self, case: Case, system: System) -> Iterator[Site]:
        """A cluster for one measurement; a shared one is started on first use."""
        if case.fresh:
            with _site(system, case.brokers, self._folder) as site:
                yield site
            return
        if system.name not in self._shared:
            stack = ExitStack()
            site = stack.enter_context(_site(system, 1, self._folder))
            self._shared[system.name] = stack, site
            self._warm_up(site)
        yield self._shared[system.name][1]

    def end(self, system: System) -> None:
        """Stop the shared clusters, at the end or after a failure, which may have broken them."""
        if system.name in self._shared:
            self._shared.pop(system.name)[0].close()


@contextmanager
def _site(system: System, brokers: int, folder: Path) -> Iterator[Site]:
    """A cluster whose directory is removed after the block."""
    with (
        TemporaryDirectory(prefix="compared-", dir=folder) as data,
        system.start(Path(data), brokers) as site,
    ):
        yield site
