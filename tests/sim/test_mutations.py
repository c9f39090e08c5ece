"""The simulation finds what each safeguard prevents, soon, and nothing while all are in force."""

import pytest

from barnabas.base.safeguards import Safeguards
from barnabas.sim.mutations import MOST_SEEDS, MUTATIONS, find


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
