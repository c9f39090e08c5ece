"""Transactions in simulation: no anomaly, and Kafka 3.9's hole is found where it is open."""

from dataclasses import replace
from itertools import islice
from typing import Final

import pytest

from barnabas.sim.faults.late_requests import LATE_REQUEST
from barnabas.sim.faults.transaction_scripts import LATE_END
from barnabas.sim.sim_run import Report, run
from barnabas.sim.world.seed_settings import SeedSettings, settings_of

# In which of these seeds a late EndTxn ends a later transaction changes with the timing.
HOLE_SEEDS: Final = range(1, 41)
SHARED_EPOCH, EPOCH_EACH = 0, 2  # transaction.version


def transactional(seed: int, seconds: float, version: int = EPOCH_EACH) -> SeedSettings:
    return replace(
        settings_of(seed, seconds),
        has_transactions=True,
        transaction_version=version,
        bits_rot=False,
    )


def late_end(seed: int, version: int) -> Report:
    settings = replace(transactional(seed, 4.0, version), is_light=True, hands_over=False)
    return run(settings, kinds=(LATE_END,))


@pytest.mark.parametrize("seed", [11])
def test_no_anomaly_is_found_under_all_faults(seed: int) -> None:
    """T46"""
    report = run(replace(transactional(seed, 6.0), is_light=True))
    assert report.broken == ()
    assert report.operations > 100


def test_the_same_seed_is_the_same_history() -> None:
    settings = replace(transactional(7, 2.0), is_light=True)
    assert run(settings).digest == run(settings).digest


def is_hit(seed: int) -> bool:
    """True if a late EndTxn ends a later transaction, if transactions share an epoch."""
    broken = late_end(seed, SHARED_EPOCH).broken
    return any(each.startswith(("aborted read", "precommitted", "torn", "lost")) for each in broken)


@pytest.mark.parametrize("count", [1, pytest.param(5, marks=pytest.mark.long)])
def test_a_late_end_hits_a_later_transaction_only_if_they_share_an_epoch(count: int) -> None:
    """With one epoch for several transactions, as in Kafka 3.9, the protocol itself is not safe."""
    found = list(islice(filter(is_hit, HOLE_SEEDS), count))
    assert len(found) == count
    for seed in found:
        safe = late_end(seed, EPOCH_EACH)
        assert safe.broken == ()
        assert sum(safe.faults.values()) > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 9))
def test_with_an_epoch_for_each_transaction_late_requests_do_no_harm(seed: int) -> None:
    report = run(transactional(seed, 30.0), kinds=(LATE_REQUEST, LATE_END))
    assert report.broken == ()
    assert report.faults[LATE_REQUEST.kind] + report.faults[LATE_END.kind] > 0
