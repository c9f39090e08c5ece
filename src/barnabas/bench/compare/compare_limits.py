"""The fallback without Apache Kafka: sections against the machine's limits."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from barnabas.bench.compare.compare_cases import Case

MEANINGLESS: Final = "Smoke run: too short for meaningful figures."
AGAINST_LIMITS: Final = ("raw", "produce", "fetch", "clients", "latency", "idle")
WITH_CLIENTS: Final = ("clients", "latency")
# The sections nearest to a case, by the first word of its name.
NEAREST: Final = {
    "produce": ("produce", "fetch", "clients"),
    "latency": ("latency",),
    "prepared": ("produce",),
    "unbatched": ("produce",),
    "rebalance": ("groups",),
    "cost": ("produce", "fetch"),
    "cold": ("log",),
    "start": ("idle",),
    "replicated": ("replication",),
    "leader": ("replication",),
    "controller": ("failover",),
    "transactions": ("produce", "clients"),
}


def against_limits(
    console: "Console",
    why: str,
    asked: "Sequence[Case]",
    results: Path | None,
    quick: bool,
    folder: Path | None,
) -> None:
    """The sections nearest to the given cases; all of them without words."""
    from barnabas.bench.bench_plan import FULL, SMOKE
    from barnabas.bench.sections import SECTIONS, run

    sections = [name for name in SECTIONS if name in _nearest(asked)]
    nothing = ", nothing written" if results else ""
    limits = f"{', '.join(sections)} against raw limits only{nothing}."
    console.print(f"{why}: {limits}", soft_wrap=True, markup=False, highlight=False)
    with TemporaryDirectory(prefix="barnabas-compare-", dir=folder) as data:
        plan = SMOKE if quick else FULL
        outcome = run(sections, plan, Path(data), console, goals=not quick)
    if quick:
        console.print(MEANINGLESS)
    if outcome.failures:
        raise typer.Exit(1)


def _nearest(cases: "Sequence[Case]") -> set[str]:
    if any(metric.client for case in cases for metric in case.metrics):
        return set(WITH_CLIENTS)
    near = {name for case in cases for name in NEAREST[case.key.split()[0]]}
    return near or set(AGAINST_LIMITS)
