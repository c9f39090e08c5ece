"""Mutation tests: without a safeguard a law is soon broken; with all of them none is."""

from typing import Final

import pytest

from barnabas.base.safeguards import Safeguards
from barnabas.sim.mutations import FAULTS_S, FIRST_SEED, MOST_SEEDS, MUTATIONS, find

pytestmark = pytest.mark.timeout(600)

TRANSACTIONAL: Final = [name for name, each in MUTATIONS.items() if each.clients.has_transactions]
OTHERS: Final = [name for name in MUTATIONS if name not in TRANSACTIONAL]
BRIEFLY_S: Final = 8.0
# A seed that breaks a law without the safeguard, and for how many seconds it has faults.
KNOWN: Final = {
    "producer_epoch_fence": (4, 6.0),
    "verification_guard": (8, 8.0),
    "coordinator_epoch_fence": (8, 8.0),
    "replicate_before_answer": (3, 5.0),
    "last_stable_offset_bound": (1, 1.5),
    "pending_offsets": (1, 8.0),
}


def test_every_safeguard_has_a_mutation() -> None:
    assert set(MUTATIONS) == set(Safeguards.__slots__)
    assert set(KNOWN) == set(TRANSACTIONAL)


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


@pytest.mark.parametrize("safeguard", TRANSACTIONAL)
def test_a_known_seed_breaks_a_law_only_without_the_safeguard_of_transactions(
    safeguard: str,
) -> None:
    seed, faults_s = KNOWN[safeguard]
    mutation = MUTATIONS[safeguard]
    assert mutation.run_seed(seed, faults_s=faults_s).broken
    assert mutation.run_seed(seed, faults_s=faults_s, in_force=True).broken == ()


@pytest.mark.long
@pytest.mark.parametrize("safeguard", MUTATIONS)
def test_with_all_safeguards_the_same_faults_break_no_law(safeguard: str) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + MOST_SEEDS):
        report = MUTATIONS[safeguard].run_seed(seed, in_force=True)
        assert report.broken == (), seed
        assert report.faults, seed
