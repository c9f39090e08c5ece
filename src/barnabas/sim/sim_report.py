"""The results of a search in docs/reliability.md: `barnabas sim --seeds ... --report`.

Everything after the mark in that file is generated here.
"""

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from barnabas.cli.exit_codes import Misused
from barnabas.sim.mutations import FIRST_SEED, MOST_SEEDS, MUTATIONS, MutationResult
from barnabas.sim.seed_runner import Summary

MARK: Final = (
    "<!-- From here on written by `barnabas sim --report`: change sim/sim_report.py instead. -->"
)
MOST_NAMED: Final = 10


def check_writable(path: Path) -> None:
    """Check, before hours of search, that the file has the mark. Raises Misused."""
    if not path.is_file() or MARK not in path.read_text():
        raise Misused(
            f"--report {path}: the file has no mark for the report; use docs/reliability.md"
        )


def write(path: Path, seeds: range, summary: Summary, findings: Sequence[MutationResult]) -> None:
    """Replace the generated part of the file with these results."""
    above, _, _ = path.read_text().partition(MARK)
    path.write_text(f"{above}{MARK}\n\n" + "\n".join(_page(seeds, summary, findings)) + "\n")


def _page(seeds: range, summary: Summary, findings: Sequence[MutationResult]) -> Iterator[str]:
    yield "## The last search\n"
    yield from _table(("", ""), _figures(seeds, summary))
    yield "\n## Faults injected\n"
    faults = sorted(summary.faults.items(), key=lambda each: (-each[1], each[0]))
    yield from _table(("Fault", "Times"), ((kind, f"{count:,}") for kind, count in faults))
    yield "\n## Safeguards\n"
    yield (
        "Each rule is disabled in turn ([safeguards.py](../src/barnabas/base/safeguards.py)),"
        f"\nand seeds from {FIRST_SEED} on, at most {MOST_SEEDS}, are run until one breaks a law."
        " With the\nrule enabled, the same seed must break no law.\n"
    )
    heads = ("Safeguard", "Rule", "Found", "Without it", "With it")
    yield from _table(heads, map(_mutation_row, findings))


def _figures(seeds: range, summary: Summary) -> Iterator[tuple[str, str]]:
    named = ", ".join(str(each.seed) for each in summary.failing[:MOST_NAMED])
    yield "seeds", f"{seeds.start}..{seeds.stop - 1}"
    yield "seeds run", f"{summary.seeds:,}"
    yield "seeds with transactions", f"{summary.transactional:,}"
    yield "seeds with sole replicas", f"{summary.sole:,}"
    yield "seeds in which a law was broken", f"{len(summary.failing)}{named and f': {named}'}"
    yield "faults injected", f"{sum(summary.faults.values()):,}"
    yield "operations checked", f"{summary.operations:,}"
    yield "simulated time", f"{summary.simulated_s / 3600:.1f} h"
    yield "wall-clock time", f"{summary.elapsed_s / 60:.1f} min"
    yield "simulated hours per wall-clock minute", f"{summary.simulated_hours_per_minute:.2f}"
    yield "processors, Python", f"{os.cpu_count()}, {platform.python_version()}"


def _mutation_row(finding: MutationResult) -> tuple[str, ...]:
    found, harm, control = "not found", "", ""
    if finding.seed is not None:
        found = f"seed {finding.seed}, after {finding.seeds} of {MOST_SEEDS}"
        harm = "; ".join(finding.broken)
        control = "; ".join(finding.broken_in_force) or "no law broken"
    rule = MUTATIONS[finding.safeguard].rule
    return f"`{finding.safeguard}`", rule, found, harm, control


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(row)} |"
