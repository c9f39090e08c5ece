"""Simulated runs of many seeds break no law."""

from collections.abc import Iterable

import pytest

from barnabas.sim.seed_runner import run_seed, search

pytestmark = pytest.mark.timeout(900)

AT_ONCE = 5
IN_EVERY_RUN = 20


def broken_in(seeds: Iterable[int]) -> dict[int, tuple[str, ...]]:
    reports = [run_seed(seed) for seed in seeds]
    return {report.seed: report.broken[:3] for report in reports if report.broken}


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(
            first,
            marks=[
                pytest.mark.xdist_group(f"seeds from {first}"),
                *([pytest.mark.long] if first > IN_EVERY_RUN else []),
            ],
        )
        for first in range(1, 101, AT_ONCE)
    ],
)
def test_no_law_is_broken(first: int) -> None:
    assert broken_in(range(first, first + AT_ONCE)) == {}


@pytest.mark.long
@pytest.mark.alone  # it searches on every processor
def test_no_law_is_broken_in_a_thousand_seeds() -> None:
    found = search(range(1_000, 2_000))
    assert {report.seed: report.broken[:3] for report in found.failing} == {}
