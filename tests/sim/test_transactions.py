"""Transactions in simulation: no anomaly, and Kafka 3.9's hole is found where it is open."""

from dataclasses import replace
from typing import Final

import pytest

from barnabas.sim.faults.late_requests import LATE_REQUEST
from barnabas.sim.sim_run import Report, run
from barnabas.sim.world.seed_settings import SeedSettings, settings_of

# Late requests of seeds that end a later transaction, if transactions share an epoch.
HOLE_SEEDS: Final = (3, 5)
SHARED_EPOCH, EPOCH_EACH = 0, 2  # transaction.version


def transactional(seed: int, seconds: float, version: int = EPOCH_EACH) -> SeedSettings:
    return replace(
        settings_of(seed, seconds),
        has_transactions=True,
        transaction_version=version,
        bits_rot=False,
    )


def late(seed: int, version: int) -> Report:
    return run(transactional(seed, 30.0, version), kinds=(LATE_REQUEST,))


@pytest.mark.parametrize("seed", [11])
def test_no_anomaly_is_found_under_all_faults(seed: int) -> None:
    report = run(transactional(seed, 10.0))
    assert report.broken == ()
    assert report.operations > 100


def test_the_same_seed_is_the_same_history() -> None:
    assert run(transactional(7, 4.0)).digest == run(transactional(7, 4.0)).digest


@pytest.mark.long
def test_a_late_end_of_a_transaction_hits_a_later_one_as_in_kafka_3_9() -> None:
    """With one epoch for several transactions, Kafka's own protocol is not safe."""
    found = [each for seed in HOLE_SEEDS for each in late(seed, SHARED_EPOCH).broken]
    assert any(each.startswith(("aborted read", "torn", "marker against")) for each in found)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 9))
def test_with_an_epoch_for_each_transaction_late_requests_do_no_harm(seed: int) -> None:
    report = late(seed, EPOCH_EACH)
    assert report.broken == ()
    assert report.faults[LATE_REQUEST.kind] > 0
