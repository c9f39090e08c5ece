"""Runs the cases on two systems in alternation, and makes ratios of what they gave."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from confluent_kafka import KafkaException

from barnabas.base.errors import ConfigError
from barnabas.bench.clients import RecordsMissing
from barnabas.bench.compare_cases import Case, Effort, Metric
from barnabas.bench.compare_sites import Site, System
from barnabas.bench.plan import Say
from barnabas.bench.processes import ServerFailed
from barnabas.bench.waiting import NotInTime

# What a system under test can do wrong; anything else is a bug of the bench.
FAILURES: Final = (
    ConfigError,
    KafkaException,
    NotInTime,
    OSError,
    RecordsMissing,
    ServerFailed,
)


@dataclass(slots=True)
class Compared:
    """One row: what both gave in each round."""

    metric: Metric
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Of each round, in which both were measured one right after the other."""
        return [a / b for a, b in zip(self.ours, self.theirs, strict=True) if b]

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None if there is none."""
        goal = self.metric.goal
        if goal is None:
            return None
        return self.ratio <= goal if self.metric.less else self.ratio >= goal


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows, and in one line each what could not be measured."""

    ours: str
    theirs: str
    rows: Sequence[Compared]
    failures: Sequence[str]


def compare(
    ours: System, theirs: System, cases: Sequence[Case], effort: Effort, folder: Path, say: Say
) -> Comparison:
    """Run every case `effort.repeat` times on both; which is first changes from round to round.

    A case that fails on either system is left out, and stops no other.
    """
    rows: list[Compared] = []
    failures: list[str] = []
    shared = [case for case in cases if not case.fresh]
    with ExitStack() as both:
        sites = {
            system.name: both.enter_context(_site(system, 1, folder))
            for system in (ours, theirs)
            if shared
        }
        for case in cases:
            try:
                rows += _rounds(case, ours, theirs, effort, folder, sites, say)
            except FAILURES as problem:
                failures.append(f"{case.key}: {str(problem) or type(problem).__name__}")
    return Comparison(ours.name, theirs.name, rows, failures)


def _rounds(
    case: Case,
    ours: System,
    theirs: System,
    effort: Effort,
    folder: Path,
    sites: dict[str, Site],
    say: Say,
) -> list[Compared]:
    rows = [Compared(metric) for metric in case.metrics]
    for number in range(effort.repeat):
        order = (ours, theirs) if number % 2 == 0 else (theirs, ours)
        for system in order:
            say(f"{case.key}: {system.name}, round {number + 1} of {effort.repeat}")
            values = _measured(case, system, effort, folder, sites)
            for row, value in zip(rows, values, strict=True):
                (row.ours if system is ours else row.theirs).append(value)
    return rows


def _measured(
    case: Case, system: System, effort: Effort, folder: Path, sites: dict[str, Site]
) -> Sequence[float]:
    if not case.fresh:
        return case.measure(sites[system.name], effort)
    with _site(system, case.brokers, folder) as site:
        return case.measure(site, effort)


@contextmanager
def _site(system: System, brokers: int, folder: Path) -> Iterator[Site]:
    """A cluster with a folder that is gone after the block."""
    with (
        TemporaryDirectory(prefix="compared-", dir=folder) as data,
        system.start(Path(data), brokers) as site,
    ):
        yield site
