"""Writes what simulations showed into docs/reliability.md: `barnabas sim --seeds ... --report`.

All after the mark in that file is written here, so that no figure in it is typed by hand.
"""

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from barnabas.cli.exit_codes import Misused
from barnabas.sim.faults.mutations import FIRST_SEED, MOST_SEEDS, MUTATIONS, Finding
from barnabas.sim.seed_runner import Summary

MARK: Final = (
    "<!-- From here on written by `barnabas sim --report`: change sim/sim_report.py instead. -->"
)
MOST_NAMED: Final = 10


def check_writable(path: Path) -> None:
    """Before hours of search: whether the report has a place. Raises Misused."""
    if not path.is_file() or MARK not in path.read_text():
        raise Misused(
            f"--report {path}: is not a document with the line that tells where the report begins;"
            " give docs/reliability.md"
        )


def write(path: Path, seeds: range, summary: Summary, findings: Sequence[Finding]) -> None:
    """Put the results in place of what was written there before; all else stays as it is."""
    above, _, _ = path.read_text().partition(MARK)
    path.write_text(f"{above}{MARK}\n\n" + "\n".join(_page(seeds, summary, findings)) + "\n")


def _page(seeds: range, summary: Summary, findings: Sequence[Finding]) -> Iterator[str]:
    yield "## The last search\n"
    yield from _table(("", ""), _figures(seeds, summary))
    yield "\n## Faults injected in it\n"
    faults = sorted(summary.faults.items(), key=lambda each: (-each[1], each[0]))
    yield from _table(("Fault", "Times"), ((kind, f"{count:,}") for kind, count in faults))
    yield "\n## What the safeguards are for\n"
    yield (
        "Each rule is switched off in turn ([safeguards.py](../src/barnabas/base/safeguards.py)),"
        f"\nand seeds are tried from {FIRST_SEED} on, {MOST_SEEDS} at the most, until one shows"
        " harm. With the\nrule in force, the same seed must keep every law.\n"
    )
    heads = ("Safeguard", "The rule", "Found", "Without it", "With it")
    yield from _table(heads, map(_mutation_row, findings))


def _figures(seeds: range, summary: Summary) -> Iterator[tuple[str, str]]:
    named = ", ".join(str(each.seed) for each in summary.failing[:MOST_NAMED])
    yield "seeds", f"{seeds.start}..{seeds.stop - 1}"
    yield "seeds tried", f"{summary.seeds:,}"
    yield "seeds in which a law was broken", f"{len(summary.failing)}{named and f': {named}'}"
    yield "faults injected", f"{sum(summary.faults.values()):,}"
    yield "operations checked", f"{summary.operations:,}"
    yield "simulated time", f"{summary.simulated_s / 3600:.1f} h"
    yield "wall-clock time", f"{summary.elapsed_s / 60:.1f} min"
    yield "simulated hours per wall-clock minute", f"{summary.simulated_hours_per_minute:.2f}"
    yield "processors, Python", f"{os.cpu_count()}, {platform.python_version()}"


def _mutation_row(finding: Finding) -> tuple[str, ...]:
    found, harm, control = "not found", "", ""
    if finding.seed is not None:
        found = f"seed {finding.seed}, after {finding.seeds} of {MOST_SEEDS}"
        harm = "; ".join(finding.broken)
        control = "; ".join(finding.broken_in_force) or "every law is kept"
    rule = MUTATIONS[finding.safeguard].rule
    return f"`{finding.safeguard}`", rule, found, harm, control


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(row)} |"
