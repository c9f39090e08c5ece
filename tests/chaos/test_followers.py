"""Followers that are slow, hung, full, new, empty, or behind the log start offset."""

import contextlib
import io
import resource
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import pytest
from confluent_kafka import Producer

from barnabas.cli.main import run
from tests.chaos.cluster import LAG_TIME_MS, CutCluster
from tests.chaos.load import Load, running
from tests.chaos.network import Cut
from tests.support.clients import PATIENCE_S
from tests.support.cluster import until
from tests.support.confluent_client import ConfluentAdmin

LEADER, FOLLOWER, OTHER = 0, 1, 2
MIN_TWO: Final = {"min.insync.replicas": "2"}
SMALL_SEGMENTS: Final = {"segment.bytes": "20000"}
# The ISR is checked twice in the lag time; the rest is for a busy machine.
LONGEST_WAIT_S: Final = LAG_TIME_MS / 1000 * 1.5 + 5

pytestmark = pytest.mark.timeout(300)


def fill(cluster: CutCluster, topic: str, count: int) -> None:
    """`count` records of a thousand bytes, ten in a batch."""
    settings = {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "batch.num.messages": 10}
    producer = Producer({**settings, "acks": "all"})
    for number in range(count):
        producer.produce(topic, b"%01000d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def longest_wait(load: Load, since: float) -> float:
    """The longest time without an acknowledgement."""
    times = [since, *(each.at for each in load.acknowledged[0] if each.at > since)]
    return max(after - before for before, after in pairwise(times))


def pause(cluster: CutCluster) -> None:
    cluster.brokers[FOLLOWER].pause()


def hold_fetches(cluster: CutCluster) -> None:
    """Its session stays alive, so that only the leader can notice."""
    cluster.network.cut([Cut(FOLLOWER, LEADER, only_fetches=True)])


def fill_disk(cluster: CutCluster) -> None:
    """Limit the follower's files to slightly more than the log's current size."""
    logs = cluster.brokers[FOLLOWER].data.glob("*/*.log")
    largest = max(log.stat().st_size for log in logs) + 5_000
    resource.prlimit(cluster.brokers[FOLLOWER].pid, resource.RLIMIT_FSIZE, (largest, largest))


@pytest.mark.parametrize(
    "trouble",
    [pause, *(pytest.param(each, marks=pytest.mark.long) for each in (hold_fetches, fill_disk))],
)
def test_a_failing_follower_delays_producers_no_longer_than_the_lag_time(
    cluster: CutCluster, topic: str, trouble: Callable[[CutCluster], None]
) -> None:
    cluster.create_topic(topic, [[LEADER, FOLLOWER, OTHER]], MIN_TWO)
    fill(cluster, topic, 500)
    load = Load(0, cluster.bootstrap, topic, 1)
    with running([load]):
        until(lambda: load.acknowledgements, "the first records")
        since = time.monotonic()
        trouble(cluster)
        cluster.wait_isr(topic, [LEADER, OTHER], asked=LEADER)
        acknowledged = load.acknowledgements
        until(lambda: load.acknowledgements > acknowledged + 100, "producers to go on")
        waited = longest_wait(load, since)
        cluster.heal()
        cluster.wait_in_sync(topic)
    load.flush()
    assert not load.errors
    assert waited < LONGEST_WAIT_S
    wait_same(cluster, topic)


def wait_same(cluster: CutCluster, topic: str, *followers: int, start: int = 0) -> None:
    """Return when these followers, or all, have the leader's records from an offset on."""

    def same() -> bool:
        logs = [
            {
                offset: value
                for offset, value in cluster.records(n, topic).items()
                if offset >= start
            }
            for n in (LEADER, *(followers or (FOLLOWER, OTHER)))
        ]
        return all(log == logs[0] for log in logs)

    until(same, "the same records everywhere")


def test_a_follower_whose_disk_was_replaced_copies_everything_again(
    cluster: CutCluster, topic: str
) -> None:
    cluster.create_topic(topic, [[LEADER, FOLLOWER, OTHER]], MIN_TWO | SMALL_SEGMENTS)
    fill(cluster, topic, 200)
    cluster.brokers[FOLLOWER].kill()
    cluster.wait_isr(topic, [LEADER, OTHER], asked=LEADER)
    cluster.wipe(FOLLOWER)
    cluster.brokers[FOLLOWER].start()
    cluster.wait_in_sync(topic)
    wait_same(cluster, topic)
    assert len(cluster.records(FOLLOWER, topic)) == 200


@pytest.mark.parametrize("deleted", [150, pytest.param(390, marks=pytest.mark.long)])
def test_a_follower_continues_at_the_new_log_start_offset(
    cluster: CutCluster, topic: str, deleted: int
) -> None:
    """Records are deleted while it is down: some that it has, or more than it has."""
    cluster.create_topic(topic, [[LEADER, FOLLOWER, OTHER]], MIN_TWO | SMALL_SEGMENTS)
    fill(cluster, topic, 200)
    cluster.brokers[FOLLOWER].kill()
    cluster.wait_isr(topic, [LEADER, OTHER], asked=LEADER)
    fill(cluster, topic, 200)
    assert ConfluentAdmin(cluster.bootstrap).delete_records(topic, deleted) == deleted
    cluster.brokers[FOLLOWER].start()
    cluster.wait_in_sync(topic)
    fill(cluster, topic, 10)
    wait_same(cluster, topic, start=deleted)
    assert max(cluster.records(FOLLOWER, topic)) == 409


def reassign(cluster: CutCluster, topic: str, *options: str) -> None:
    """Replace FOLLOWER by OTHER, and wait until that is done."""
    said = io.StringIO()
    command = ["reassign", "run", "-p", f"{topic}:0={LEADER},{OTHER}", *options]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run([*command, "--bootstrap-server", cluster.bootstrap])
    assert code == 0, said.getvalue()
    assert cluster.partitions(topic)[0].replica_nodes == (LEADER, OTHER)


def test_a_new_replica_starts_at_the_log_start_offset(cluster: CutCluster, topic: str) -> None:
    cluster.create_topic(topic, [[LEADER, FOLLOWER]], SMALL_SEGMENTS)
    fill(cluster, topic, 200)
    assert ConfluentAdmin(cluster.bootstrap).delete_records(topic, 155) == 155
    reassign(cluster, topic)
    wait_same(cluster, topic, OTHER, start=155)
    assert min(cluster.records(OTHER, topic)) == 150


@pytest.mark.long
def test_a_reassigned_replica_is_copied_at_the_throttled_rate_and_the_throttle_is_removed(
    cluster: CutCluster, topic: str
) -> None:
    cluster.create_topic(topic, [[LEADER, FOLLOWER]])
    fill(cluster, topic, 3_000)
    rate = 500_000
    began = time.monotonic()
    reassign(cluster, topic, "--throttle", str(rate))
    took = time.monotonic() - began
    assert 3_000_000 / rate / 3 < took < 3_000_000 / rate * 10
    keys = [f"{side}.replication.throttled.replicas" for side in ("leader", "follower")]
    client = ConfluentAdmin(cluster.bootstrap)
    # Each broker applies the change at its own time.
    until(lambda: not any(map(client.configs(topic).get, keys)), "no throttle any more")
    wait_same(cluster, topic, OTHER)
