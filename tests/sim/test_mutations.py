"""Mutation tests: without a safeguard a law is soon broken; with all of them none is."""

import pytest

from barnabas.base.safeguards import Safeguards
from barnabas.sim.mutations import FIRST_SEED, MOST_SEEDS, MUTATIONS, find

pytestmark = pytest.mark.timeout(600)


def test_every_safeguard_has_a_mutation() -> None:
    assert set(MUTATIONS) == set(Safeguards.__slots__)


@pytest.mark.parametrize("safeguard", MUTATIONS)
def test_without_a_safeguard_a_law_is_broken_and_with_it_none_is(
    safeguard: str,
) -> None:
    finding = find(safeguard)
    assert finding.seed is not None, f"nothing found in {MOST_SEEDS} seeds"
    assert finding.broken
    assert finding.broken_in_force == ()


@pytest.mark.long
@pytest.mark.parametrize("safeguard", MUTATIONS)
def test_with_all_safeguards_the_same_faults_break_no_law(safeguard: str) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + MOST_SEEDS):
        report = MUTATIONS[safeguard].run_seed(seed, in_force=True)
        assert report.broken == (), seed
        assert report.faults, seed
