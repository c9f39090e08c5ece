"""The simulation finds what each safeguard prevents, soon, and nothing while all are in force."""

import pytest

from barnabas.base.safeguards import Safeguards
from barnabas.sim.faults.mutations import FIRST_SEED, MOST_SEEDS, MUTATIONS, find

pytestmark = pytest.mark.timeout(600)


def test_every_safeguard_can_be_seen_to_matter() -> None:
    assert set(MUTATIONS) == set(Safeguards.__slots__)


@pytest.mark.parametrize("safeguard", MUTATIONS)
def test_without_a_safeguard_harm_is_found_and_with_it_the_same_seed_is_fine(
    safeguard: str,
) -> None:
    finding = find(safeguard)
    assert finding.seed is not None, f"nothing found in {MOST_SEEDS} seeds"
    assert finding.broken
    assert finding.broken_in_force == ()


@pytest.mark.long
@pytest.mark.parametrize("safeguard", MUTATIONS)
def test_with_all_safeguards_in_force_the_same_faults_break_nothing(safeguard: str) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + MOST_SEEDS):
        report = MUTATIONS[safeguard].play(seed, in_force=True)
        assert report.broken == (), seed
        assert report.faults, seed
