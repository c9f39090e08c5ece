"""Random faults of three brokers on a real ZooKeeper: every promise holds."""

import time
from random import Random
from typing import Final

import pytest

from tests.chaos.conftest import StartCluster
from tests.chaos.faults import Faults
from tests.chaos.judging import (
    judge_loads,
    judge_readers,
    judge_replacements,
    read_replicas,
    summary,
    unavailability,
    verify_folders,
)
from tests.chaos.load import Load, Reader, running
from tests.support.chaos import SECONDS, chaos_seed
from tests.support.cluster import until

ASSIGNMENT: Final = ([0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1])
CONFIG: Final = {"min.insync.replicas": "2", "segment.bytes": "200000"}

pytestmark = pytest.mark.timeout(SECONDS * 2 + 300)


def test_nothing_acknowledged_is_lost_and_nothing_read_vanishes_whatever_happens_to_leaders(
    cut_cluster: StartCluster, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = chaos_seed()
    with capsys.disabled():
        print(f"\nchaos: seed {seed}, {SECONDS} s")
    cluster = cut_cluster()
    cluster.create_topic(topic, ASSIGNMENT, CONFIG)
    count, bootstrap = len(ASSIGNMENT), cluster.bootstrap
    loads = [Load(number, bootstrap, topic, count) for number in range(3)]
    racks: list[dict[str, str]] = [{}, {"client.rack": "rack-0"}, {"client.rack": "rack-1"}]
    readers = [Reader(bootstrap, topic, count, settings) for settings in racks]
    faults = Faults(cluster, topic, Random(seed))
    with running(readers):
        with running(loads):
            until(lambda: all(load.acknowledgements for load in loads), "the first records")
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                faults.inject()
            cluster.wait_in_sync(topic)
        for load in loads:
            load.flush()
        cluster.wait_in_sync(topic)
        cluster.wait_agreed()
        sent = [sum(load.sent[partition] for load in loads) for partition in range(count)]
        until(
            lambda: all(reader.counts == sent for reader in readers),
            lambda: f"the readers, to see {sent}: {readers}",
        )
    for broker in cluster.brokers.values():
        broker.stop()
    contents = read_replicas(cluster, topic, count)
    judge_loads(loads, contents)
    judge_readers(readers, contents)
    judge_replacements(readers, SECONDS)
    verify_folders(cluster)
    gaps = unavailability(faults.injected, loads)
    with capsys.disabled():
        print(f"faults injected: {faults.by_kind}")
        replacements = [each for reader in readers for each in reader.replacements]
        print("\n  ".join([f"clients replaced: {len(replacements)}", *map(str, replacements)]))
        print(f"records acknowledged: {sum(load.acknowledgements for load in loads)}")
        print(f"unavailability per failover: {summary(gaps)}")
