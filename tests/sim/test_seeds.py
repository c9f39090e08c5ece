"""Many runs of the whole cluster in simulation: no law is broken in any of them."""

import pytest

from barnabas.sim.runner import Summary, search

# Faults of every kind, some hundred times over.
SEEDS = range(1, 101)
MORE = range(1_000, 2_000)


def check(summary: Summary) -> None:
    failing = [(report.seed, report.broken[:3]) for report in summary.failing]
    assert failing == []


def test_a_hundred_seeds_keep_every_law() -> None:
    summary = search(SEEDS, processes=2)
    check(summary)
    assert summary.seeds == len(SEEDS)
    assert len([kind for kind, count in summary.faults.items() if count]) >= 17
    assert summary.operations > 10_000


@pytest.mark.long
def test_a_thousand_more_seeds_keep_every_law() -> None:
    check(search(MORE))
