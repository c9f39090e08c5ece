"""Mutation tests: without a safeguard a law is soon broken; with all of them none is."""

from typing import Final

import pytest

from barnabas.base.safeguards import Safeguards
from barnabas.sim.mutations import FAULTS_S, FIRST_SEED, MOST_SEEDS, MUTATIONS, find

pytestmark = pytest.mark.timeout(600)

TRANSACTIONAL: Final = [name for name, each in MUTATIONS.items() if each.clients.has_transactions]
OTHERS: Final = [name for name in MUTATIONS if name not in TRANSACTIONAL]
# How long faults last in the searches of CI.
BRIEFLY_S: Final = 8.0
# Which seeds break a law changes with the timing of transactions, so a search has many more than it
# needs now. The epoch of coordinators takes long.
BRIEF_OF_TRANSACTIONS_S: Final = {
    "producer_epoch_fence": 1.5,
    "verification_guard": 3.0,
    "replicate_before_answer": 3.0,
    "last_stable_offset_bound": 1.5,
    "pending_offsets": 5.0,
}
MOST_BRIEF: Final = 40


def test_every_safeguard_has_a_mutation() -> None:
    assert set(MUTATIONS) == set(Safeguards.__slots__)
    assert set(BRIEF_OF_TRANSACTIONS_S) <= set(TRANSACTIONAL)


@pytest.mark.parametrize(
    ("safeguard", "faults_s"),
    [
        *((name, BRIEFLY_S) for name in OTHERS),
        *(pytest.param(name, FAULTS_S, marks=pytest.mark.long) for name in MUTATIONS),
    ],
)
def test_without_a_safeguard_a_law_is_broken_and_with_it_none_is(
    safeguard: str, faults_s: float
) -> None:
    finding = find(safeguard, faults_s=faults_s)
    assert finding.seed is not None, f"nothing found in {MOST_SEEDS} seeds"
    assert finding.broken
    assert finding.broken_in_force == ()


@pytest.mark.parametrize("safeguard", BRIEF_OF_TRANSACTIONS_S)
def test_a_brief_search_finds_the_lack_of_a_safeguard_of_transactions(safeguard: str) -> None:
    faults_s = BRIEF_OF_TRANSACTIONS_S[safeguard]
    finding = find(safeguard, MOST_BRIEF, faults_s=faults_s)
    assert finding.seed is not None, f"nothing found in {MOST_BRIEF} seeds"
    assert finding.broken_in_force == ()


@pytest.mark.long
@pytest.mark.parametrize("safeguard", MUTATIONS)
def test_with_all_safeguards_the_same_faults_break_no_law(safeguard: str) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + MOST_SEEDS):
        report = MUTATIONS[safeguard].run_seed(seed, in_force=True)
        assert report.broken == (), seed
        assert report.faults, seed
