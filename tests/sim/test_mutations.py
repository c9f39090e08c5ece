"""Mutation tests: without a safeguard a law is soon broken; with all of them none is."""

from typing import Final

import pytest

from barnabas.base.safeguards import Safeguards
from barnabas.sim.mutations import FIRST_SEED, MOST_SEEDS, MUTATIONS, find

pytestmark = pytest.mark.timeout(600)

WITHOUT_TRANSACTIONS: Final = [
    name for name, each in MUTATIONS.items() if not each.clients.has_transactions
]
# How long faults last in the searches of CI. Which seeds break a law changes with the timing of
# transactions, so a search has many more than it needs now. The epoch of coordinators takes long.
BRIEFLY_S: Final = {
    **dict.fromkeys(WITHOUT_TRANSACTIONS, 8.0),
    "producer_epoch_fence": 1.5,
    "verification_guard": 8.0,
    "replicate_before_answer": 3.0,
    "last_stable_offset_bound": 1.5,
    "replicate_markers": 10.0,
    "flush_before_answer": 4.0,
    "pending_offsets": 5.0,
}
MOST_BRIEF: Final = 40


def test_every_safeguard_has_a_mutation() -> None:
    assert set(MUTATIONS) == set(Safeguards.__slots__)
    assert set(BRIEFLY_S) == set(MUTATIONS) - {"coordinator_epoch_fence"}


@pytest.mark.long
@pytest.mark.parametrize("safeguard", MUTATIONS)
def test_without_a_safeguard_a_law_is_broken_and_with_it_none_is(
    safeguard: str,
) -> None:
    finding = find(safeguard)
    assert finding.seed is not None, f"nothing found in {MOST_SEEDS} seeds"
    assert finding.broken
    assert finding.broken_in_force == ()


@pytest.mark.parametrize("safeguard", BRIEFLY_S)
def test_a_brief_search_finds_the_lack_of_a_safeguard(safeguard: str) -> None:
    finding = find(safeguard, MOST_BRIEF, faults_s=BRIEFLY_S[safeguard])
    assert finding.seed is not None, f"nothing found in {MOST_BRIEF} seeds"
    assert finding.broken_in_force == ()


@pytest.mark.long
@pytest.mark.parametrize("safeguard", MUTATIONS)
def test_with_all_safeguards_the_same_faults_break_no_law(safeguard: str) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + MOST_SEEDS):
        report = MUTATIONS[safeguard].run_seed(seed, in_force=True)
        assert report.broken == (), seed
        assert report.faults, seed
