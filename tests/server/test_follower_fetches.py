"""Fetches of followers: what they move, and who waits for what a throttle leaves."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from barnabas.base.clock import LoopTime
from barnabas.base.ids import BrokerId, Offset
from barnabas.purgatory.timer import Timer
from barnabas.replication.leader.follower_progress import IsrChange
from barnabas.replication.leader.isr_writer import IsrTracker
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replication_throttle import ReplicationThrottle
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.fetching.follower_fetches import FollowerFetches
from barnabas.wire.fetch.fetch_codec import FetchPartition
from tests.log.batches import NOW, batch_of, open_partition
from tests.purgatory.virtual_loop import VirtualLoop
from tests.replication.leading import F2, F3, ME, leadership


class Setting:
    """A leader of five records with one follower in sync and one that is not."""

    def __init__(self, folder: Path, loop: VirtualLoop) -> None:
        log = open_partition(folder)
        told = leadership(log.partition, isr=(ME, F2), replicas=(ME, F2, F3))
        self.leader = LeaderReplica(ME, told, log, high_watermark=Offset(0), now_ms=0)
        self.leader.append(batch_of(5), NOW)
        self.throttle = ReplicationThrottle(ME, loop.time)
        self.submitted: list[IsrChange] = []
        self.fetches = FollowerFetches(
            Delayed(Timer(loop)),
            self.throttle,
            cast(IsrTracker, self),
            LoopTime(loop),
        )

    def submit(self, _: LeaderReplica, change: IsrChange) -> None:
        self.submitted.append(change)

    def fetch(
        self,
        replica: BrokerId,
        offset: int,
        epoch: int = 0,
        last_epoch: int = -1,
        arrived_ms: float | None = None,
    ) -> None:
        wanted = FetchPartition(0, offset, 100, epoch, last_epoch, 0)
        self.fetches.on_fetch(replica, [(self.leader, wanted)], arrived_ms)


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    loop = VirtualLoop()
    yield Setting(tmp_path, loop)
    loop.close()


def test_the_high_watermark_goes_with_the_followers_that_are_in_sync(setting: Setting) -> None:
    setting.fetch(F2, 3)
    assert setting.leader.high_watermark == 3
    setting.fetch(F2, 5)
    assert setting.leader.high_watermark == 5


@pytest.mark.parametrize(
    ("replica", "offset", "epoch", "last_epoch"),
    [(BrokerId(9), 5, 0, -1), (F2, 6, 0, -1), (F2, 5, 1, -1), (F2, 5, 0, 3)],
    ids=["not assigned", "beyond the end", "another epoch", "another past"],
)
def test_a_refused_fetch_makes_no_progress(
    setting: Setting, replica: BrokerId, offset: int, epoch: int, last_epoch: int
) -> None:
    setting.fetch(replica, offset, epoch, last_epoch)
    assert setting.leader.high_watermark == 0
    assert {follower.log_end_offset for follower in setting.leader.followers} == {-1}


def test_what_a_fetch_reports_is_not_noted_after_a_later_one(setting: Setting) -> None:
    """The follower was restarted and has lost records that its fetch of before still reports."""
    setting.fetch(F2, 3, arrived_ms=200)
    setting.fetch(F2, 5, arrived_ms=100)
    assert setting.leader.high_watermark == 3
    setting.fetch(F2, 5, arrived_ms=200)  # another fetcher of it, or another part of the same
    assert setting.leader.high_watermark == 5


def test_one_that_caught_up_is_submitted_once(setting: Setting) -> None:
    setting.fetch(F3, 5)
    setting.fetch(F3, 5)
    (change,) = setting.submitted
    assert change.isr == (ME, F2, F3)


def test_only_those_out_of_sync_wait_where_the_topic_says_so_and_the_rate_is_passed(
    setting: Setting,
) -> None:
    leader, fetches, throttle = setting.leader, setting.fetches, setting.throttle
    topic, partition = leader.topic_partition
    throttle.bytes_per_second = 10
    fetches.on_sent(topic, partition, 1000)
    assert not fetches.must_wait(leader, F3)  # the topic names nobody
    throttle.set_topic(topic, [f"{partition}:{ME}"])
    assert not fetches.must_wait(leader, F3)  # and so nothing was counted
    fetches.on_sent(topic, partition, 1000)
    assert fetches.must_wait(leader, F3)
    assert not fetches.must_wait(leader, F2)
