"""Parallel runs of many seeds, their summary, and the shortening of a failing run."""

import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from typing import Final

from barnabas.base.clock import machine_stopwatch
from barnabas.base.safeguards import Safeguards
from barnabas.sim.acl_run import run_with_acls
from barnabas.sim.sim_run import Report, run
from barnabas.sim.world.seed_settings import DRAWN, InEverySeed, searched_settings

# Number of durations to try when shortening a failing run.
MOST_SHORTENINGS: Final = 6
_NS: Final = 1_000_000_000


@dataclass(slots=True)
class Summary:
    """The totals of all runs so far; all of them had what `every` says."""

    seeds: int = 0
    operations: int = 0
    simulated_s: float = 0.0
    elapsed_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    failing: list[Report] = field(default_factory=list)
    visited: Counter[str] = field(default_factory=Counter)
    transactional: int = 0  # seeds with transactions
    sole: int = 0  # seeds with sole replicas
    every: InEverySeed = DRAWN

    @property
    def simulated_hours_per_minute(self) -> float:
        return self.simulated_s / 3600 / (self.elapsed_s / 60) if self.elapsed_s else 0.0

    @property
    def shortest(self) -> Report | None:
        """The failing run with the fewest steps."""
        return min(self.failing, key=lambda report: (report.steps, report.seed), default=None)

    def add(self, report: Report) -> None:
        self.seeds += 1
        settings = searched_settings(report.seed, every=self.every)
        self.transactional += settings.has_transactions
        self.sole += settings.is_sole
        self.operations += report.operations
        self.simulated_s += report.simulated_s
        self.faults += report.faults
        self.visited += report.visited
        if report.broken:
            self.failing.append(report)


def run_seed(
    seed: int,
    seconds: float | None = None,
    safeguards: Safeguards | None = None,
    every: InEverySeed = DRAWN,
) -> Report:
    """Run one seed; `seconds` overrides how long its faults go on.

    In some seeds ACLs change, too, with the faults that leave the tree alone.
    """
    settings = searched_settings(seed, seconds, every)
    return run_with_acls(settings, safeguards) if settings.has_acls else run(settings, safeguards)


def search(
    seeds: Iterable[int],
    *,
    minutes: float | None = None,
    seconds: float | None = None,
    processes: int | None = None,
    safeguards: Safeguards | None = None,
    every: InEverySeed = DRAWN,
    on_report: Callable[[Summary, Report], None] = lambda *_: None,
    stop_at_first: bool = False,
) -> Summary:
    """Run seeds, one per processor at a time, until the seeds or the minutes run out.

    Traces are kept only for runs that broke a law.
    """
    summary, began = Summary(every=every), machine_stopwatch()
    left = iter(seeds)
    count = processes or os.cpu_count() or 1
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, spawning, initializer=end_with_parent) as pool:
        waiting: dict[Future[Report], int] = {}
        is_over = False
        while True:
            while (
                not is_over and len(waiting) < 2 * count and (seed := next(left, None)) is not None
            ):
                running = pool.submit(_run_without_trace, seed, seconds, safeguards, every)
                waiting[running] = seed
            if not waiting:
                return summary
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                report = _report_of(future, waiting.pop(future))
                summary.add(report)
                summary.elapsed_s = (machine_stopwatch() - began) / _NS
                on_report(summary, report)
            is_late = minutes is not None and summary.elapsed_s > minutes * 60
            if is_late or (stop_at_first and summary.failing):
                is_over = True
                for future in [each for each in waiting if each.cancel()]:
                    del waiting[future]


def shorten(
    report: Report, safeguards: Safeguards | None = None, every: InEverySeed = DRAWN
) -> tuple[Report, float | None]:
    """The shortest failing run of the same seed, and its duration; None if it was not shortened."""
    seconds: float | None = None
    for tried in _shorter(searched_settings(report.seed, every=every).duration_s):
        shorter = run_seed(report.seed, tried, safeguards, every=every)
        if not shorter.broken:
            continue
        report, seconds = shorter, tried
        break
    return report, seconds


def _shorter(duration_s: float) -> Iterator[float]:
    """Durations from short to long: the first that fails is nearly the shortest."""
    for step in range(1, MOST_SHORTENINGS + 1):
        yield round(duration_s * step / (MOST_SHORTENINGS + 1), 1)


def _run_without_trace(
    seed: int, seconds: float | None, safeguards: Safeguards | None, every: InEverySeed
) -> Report:
    report = run_seed(seed, seconds, safeguards, every)
    return report if report.broken else replace(report, lines=())


def _report_of(future: "Future[Report]", seed: int) -> Report:
    error = future.exception()
    if error is None:
        return future.result()
    why = f"the simulation itself failed: {error!r}"
    return Report(seed, (why,), Counter(), 0, 0.0, 0, "", ())


def end_with_parent() -> None:
    """Leave Ctrl-C to the parent process, which stops this one; end also if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_after_parent, daemon=True).start()


def _end_after_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
