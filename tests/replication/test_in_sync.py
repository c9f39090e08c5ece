"""The in-sync replicas: who joins, who leaves, and what a change under way holds."""

import pytest

from barnabas.base.errors import LawBroken
from barnabas.base.ids import BrokerId, Offset, TopicPartition
from barnabas.replication.leader.follower_progress import Follower
from barnabas.replication.leader.in_sync import InSyncReplicas
from tests.replication.leading import F2, F3, F4, ME, leadership

PARTITION = TopicPartition("orders", 0)
LAG = 1000
ALL = (ME, F2, F3)


def in_sync(
    isr: tuple[BrokerId, ...] = ALL,
    replicas: tuple[BrokerId, ...] = ALL,
    dead: tuple[BrokerId, ...] = (),
    now_ms: float = 0,
) -> InSyncReplicas:
    told = leadership(PARTITION, isr=isr, replicas=replicas, partition_epoch=5)
    return InSyncReplicas(ME, told, now_ms, lambda broker: broker not in dead)


# -- a follower's progress ---------------------------------------------------


def test_a_follower_has_caught_up_when_it_fetches_at_the_end_of_the_log() -> None:
    follower = Follower(F2)
    follower.on_fetch(10, 0, leader_end=10, now_ms=500)
    assert (follower.log_end_offset, follower.last_caught_up_ms) == (10, 500)


def test_a_follower_that_is_always_one_fetch_behind_keeps_up() -> None:
    follower = Follower(F2)
    follower.on_fetch(0, 0, leader_end=10, now_ms=100)
    follower.on_fetch(10, 0, leader_end=20, now_ms=200)
    assert follower.last_caught_up_ms == 100
    follower.on_fetch(20, 0, leader_end=30, now_ms=300)
    assert follower.last_caught_up_ms == 200
    assert follower.is_caught_up(30, now_ms=1200, max_lag_ms=LAG)
    assert not follower.is_caught_up(30, now_ms=1201, max_lag_ms=LAG)


def test_a_follower_that_fetches_but_does_not_reach_the_end_falls_behind() -> None:
    follower = Follower(F2, caught_up_ms=0)
    for n in range(1, 20):
        follower.on_fetch(n, 0, leader_end=100 * n, now_ms=100 * n)
    assert follower.last_caught_up_ms == 0
    assert not follower.is_caught_up(1900, now_ms=1900, max_lag_ms=LAG)


def test_a_follower_that_has_everything_may_be_silent() -> None:
    follower = Follower(F2)
    follower.on_fetch(10, 0, leader_end=10, now_ms=0)
    assert follower.is_caught_up(10, now_ms=10 * LAG, max_lag_ms=LAG)


# -- out ---------------------------------------------------------------------


def test_at_first_those_in_sync_have_the_whole_lag_time_to_come() -> None:
    replicas = in_sync(now_ms=50)
    assert replicas.decide_shrink(10, 50 + LAG, LAG) is None
    change = replicas.decide_shrink(10, 51 + LAG, LAG)
    assert change is not None
    assert change.is_shrink
    assert (change.before, change.isr) == (ALL, (ME,))
    assert (change.partition_epoch, change.controller_epoch) == (5, 7)


def test_only_lagging_followers_leave_the_isr() -> None:
    replicas = in_sync()
    replicas.followers[F3].on_fetch(10, 0, 10, 900)
    change = replicas.decide_shrink(20, 1500, LAG)
    assert change is not None
    assert change.isr == (ME, F3)


def test_an_in_sync_replica_that_is_no_longer_assigned_leaves_the_isr() -> None:
    replicas = in_sync(replicas=(ME, F2))
    change = replicas.decide_shrink(0, 0, LAG)
    assert change is not None
    assert change.isr == (ME, F2)


def test_a_removed_replica_bounds_the_high_watermark_until_the_removal_is_written() -> None:
    replicas = in_sync(isr=(ME, F2), replicas=(ME, F2))
    replicas.followers[F2].on_fetch(3, 0, 10, 0)
    change = replicas.decide_shrink(10, 2 * LAG, LAG)
    assert change is not None
    replicas.begin(change)
    assert replicas.least_end(Offset(10), 2 * LAG, LAG) == 3
    replicas.apply(change.isr, 6)
    assert replicas.least_end(Offset(10), 2 * LAG, LAG) == 10


# -- in ----------------------------------------------------------------------


def test_a_follower_that_reaches_far_enough_is_let_in() -> None:
    replicas = in_sync(isr=(ME,))
    follower = replicas.followers[F3]
    follower.on_fetch(9, 0, 20, 0)
    assert replicas.decide_expansion(follower, 10) is None
    follower.on_fetch(10, 0, 20, 0)
    change = replicas.decide_expansion(follower, 10)
    assert change is not None
    assert not change.is_shrink
    assert change.isr == (ME, F3)


def test_a_dead_follower_is_not_let_in() -> None:
    replicas = in_sync(isr=(ME,), dead=(F2,))
    replicas.followers[F2].on_fetch(10, 0, 10, 0)
    assert replicas.decide_expansion(replicas.followers[F2], 10) is None


def test_one_that_is_let_in_holds_the_high_watermark_from_the_beginning() -> None:
    replicas = in_sync(isr=(ME,), replicas=(ME, F2), now_ms=0)
    follower = replicas.followers[F2]
    follower.on_fetch(5, 0, 100, 0)
    assert replicas.least_end(Offset(100), 2 * LAG, LAG) == 100
    change = replicas.decide_expansion(follower, 5)
    assert change is not None
    replicas.begin(change)
    assert replicas.committed == (ME,)
    assert replicas.least_end(Offset(100), 2 * LAG, LAG) == 5


def test_one_that_keeps_pace_is_waited_for_though_it_is_not_in_yet() -> None:
    replicas = in_sync(isr=(ME,), replicas=(ME, F2))
    replicas.followers[F2].on_fetch(10, 0, 10, 100)
    assert replicas.least_end(Offset(12), 100 + LAG, LAG) == 10
    assert replicas.least_end(Offset(12), 101 + LAG, LAG) == 12


def test_a_dead_one_is_not_waited_for() -> None:
    replicas = in_sync(isr=(ME,), replicas=(ME, F2), dead=(F2,))
    replicas.followers[F2].on_fetch(10, 0, 10, 100)
    assert replicas.least_end(Offset(12), 100, LAG) == 12


# -- one at a time -----------------------------------------------------------


def test_nothing_else_is_decided_while_a_change_is_under_way() -> None:
    replicas = in_sync(isr=(ME, F2))
    replicas.followers[F3].on_fetch(0, 0, 0, 0)
    change = replicas.decide_expansion(replicas.followers[F3], 0)
    assert change is not None
    replicas.begin(change)
    assert replicas.decide_shrink(10, 10 * LAG, LAG) is None
    assert replicas.decide_expansion(replicas.followers[F3], 0) is None
    with pytest.raises(LawBroken, match="REP-3"):
        replicas.begin(change)


# -- what the controller says ------------------------------------------------


def test_the_controller_adds_and_removes_replicas_and_the_others_keep_their_progress() -> None:
    replicas = in_sync()
    replicas.followers[F3].on_fetch(10, 0, 10, 0)
    told = leadership(PARTITION, isr=(ME, F3), replicas=(ME, F3, F4), partition_epoch=6)
    assert replicas.on_leadership(told)
    assert {f.broker_id: f.log_end_offset for f in replicas.followers.values()} == {F3: 10, F4: -1}
    assert (replicas.committed, replicas.partition_epoch) == ((ME, F3), 6)


def test_what_is_older_than_what_is_known_changes_nothing() -> None:
    replicas = in_sync()
    assert not replicas.on_leadership(leadership(PARTITION, isr=(ME,), partition_epoch=4))
    assert (replicas.committed, len(replicas.followers)) == (ALL, 2)


@pytest.mark.parametrize(("partition_epoch", "stays"), [(5, True), (6, False)])
def test_a_change_under_way_stays_so_until_a_newer_partition_epoch_decides_it(
    partition_epoch: int, stays: bool
) -> None:
    replicas = in_sync(isr=(ME,), replicas=(ME, F2))
    replicas.followers[F2].on_fetch(0, 0, 0, 0)
    change = replicas.decide_expansion(replicas.followers[F2], 0)
    assert change is not None
    replicas.begin(change)
    told = leadership(PARTITION, isr=(ME,), replicas=(ME, F2), partition_epoch=partition_epoch)
    assert replicas.on_leadership(told)
    assert (replicas.pending is change) == stays
    assert replicas.maximal == ((ME, F2) if stays else (ME,))


# -- the low watermark -------------------------------------------------------


def test_the_low_watermark_is_the_least_log_start_of_the_living() -> None:
    replicas = in_sync(dead=(F3,))
    assert replicas.least_start(Offset(8)) == -1
    replicas.followers[F2].on_fetch(10, 4, 10, 0)
    assert replicas.least_start(Offset(8)) == 4
    replicas.followers[F2].on_fetch(10, 9, 10, 0)
    assert replicas.least_start(Offset(8)) == 8
