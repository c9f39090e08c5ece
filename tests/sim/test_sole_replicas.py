"""Sole replicas in simulation: what is appended is committed, and transactions wait for nothing."""

from collections import Counter
from dataclasses import replace
from typing import Final

import pytest

from barnabas.sim.mutations import MUTATIONS, SOLE_MUTATIONS, find
from barnabas.sim.seed_runner import run_seed, search
from barnabas.sim.sim_run import Report
from barnabas.sim.world.at_once_counts import ADDED, ENDED, MARKED
from barnabas.sim.world.seed_settings import (
    DRAWN,
    InEverySeed,
    has_acls,
    has_sole_replicas,
    searched_settings,
    settings_of,
)

pytestmark = pytest.mark.timeout(900)

SOLE: Final = InEverySeed(sole_replicas=True)
# With one broker and with three, with a flush of each record and without one.
IN_EVERY_RUN: Final = (1, 3, 6, 10, 11)
# How long faults last in the searches of CI.
BRIEFLY_S: Final = {
    "replicate_markers": 10.0,
    "flush_before_answer": 4.0,
    "producer_epoch_fence": 3.0,
    "verification_guard": 10.0,
    "coordinator_epoch_fence": 10.0,
    "last_stable_offset_bound": 2.0,
    "pending_offsets": 12.0,
}
MOST_BRIEF: Final = 40


def alone(seed: int, seconds: float | None = None) -> Report:
    return run_seed(seed, seconds, every=SOLE)


def test_some_seeds_of_every_search_have_sole_replicas() -> None:
    chosen = [seed for seed in range(1, 101) if has_sole_replicas(seed)]
    assert 5 <= len(chosen) <= 25
    assert not any(map(has_acls, chosen))
    assert run_seed(chosen[0], 3.0).digest == alone(chosen[0], 3.0).digest


def test_other_seeds_are_as_they_were() -> None:
    for seed in range(1, 101):
        settings = searched_settings(seed)
        assert settings.is_sole is has_sole_replicas(seed)
        if not settings.is_sole:
            assert settings == replace(settings_of(seed), has_acls=settings.has_acls)
        assert searched_settings(seed, every=SOLE).is_sole
    assert not any(DRAWN)


def test_seeds_have_clusters_of_each_kind() -> None:
    kinds = {
        (settings.brokers, settings.flushes_each)
        for settings in (searched_settings(seed, every=SOLE) for seed in IN_EVERY_RUN)
    }
    assert kinds == {(1, True), (1, False), (3, True), (3, False)}


def test_no_law_is_broken_and_what_waits_for_nothing_is_done_at_once() -> None:
    visited: Counter[str] = Counter()
    for seed in IN_EVERY_RUN:
        report = alone(seed, 10.0)
        assert report.broken == (), seed
        visited += report.visited
    assert min(visited[ADDED], visited[ENDED], visited[MARKED]) > 50, visited


def test_with_three_replicas_nothing_is_done_at_once() -> None:
    report = run_seed(2, 3.0, every=InEverySeed(transactions=True))
    assert report.broken == ()
    assert not report.visited


def test_every_safeguard_of_transactions_has_a_mutation_here_or_waits_for_replicas() -> None:
    transactional = {name for name, each in MUTATIONS.items() if each.clients.has_transactions}
    assert transactional - set(SOLE_MUTATIONS) == {"replicate_before_answer"}
    assert set(BRIEFLY_S) == set(SOLE_MUTATIONS)
    for mutation in SOLE_MUTATIONS.values():
        assert mutation.clients.internal_replication_factor == 1


@pytest.mark.parametrize("safeguard", BRIEFLY_S)
def test_a_brief_search_finds_the_lack_of_a_safeguard(safeguard: str) -> None:
    finding = find(safeguard, MOST_BRIEF, faults_s=BRIEFLY_S[safeguard], mutations=SOLE_MUTATIONS)
    assert finding.seed is not None, f"nothing found in {MOST_BRIEF} seeds"
    assert finding.broken_in_force == ()


@pytest.mark.long
@pytest.mark.parametrize("safeguard", SOLE_MUTATIONS)
def test_without_a_safeguard_a_law_is_broken_and_with_it_none_is(safeguard: str) -> None:
    finding = find(safeguard, mutations=SOLE_MUTATIONS)
    assert finding.seed is not None
    assert finding.broken_in_force == ()


@pytest.mark.long
def test_no_law_is_broken_in_hundreds_of_seeds() -> None:
    found = search(range(2_000, 2_300), every=SOLE)
    assert {report.seed: report.broken[:3] for report in found.failing} == {}
    assert min(found.visited[each] for each in (ADDED, ENDED, MARKED)) > 1_000
