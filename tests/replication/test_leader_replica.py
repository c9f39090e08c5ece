"""A leader with followers: what it commits, whom it counts in, and what it never does."""

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, Offset
from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import Log
from barnabas.replication.leader.follower_progress import IsrChange
from barnabas.replication.leader.leader_replica import LeaderReplica
from tests.log.batches import CONFIG, NOW, append, batch_of, open_partition
from tests.replication.leading import F2, F3, ME, leadership, sole_leader

LAG = 1000
ALL = (ME, F2, F3)


def replicated(
    log: Log,
    isr: tuple[BrokerId, ...] = ALL,
    replicas: tuple[BrokerId, ...] = ALL,
    *,
    high_watermark: int = 0,
    epoch: int = 0,
    dead: tuple[BrokerId, ...] = (),
    **options: Any,
) -> LeaderReplica:
    return LeaderReplica(
        ME,
        leadership(log.partition, isr=isr, replicas=replicas, epoch=epoch, **options),
        log,
        high_watermark=Offset(high_watermark),
        now_ms=0,
        max_lag_ms=LAG,
        is_alive=lambda broker: broker not in dead,
    )


def grow(leader: LeaderReplica, records: int = 1) -> Offset:
    return leader.append(batch_of(records), NOW).end


def asking_for(replicas: int) -> TopicConfig:
    return dataclasses.replace(CONFIG, min_insync_replicas=replicas)


# -- becoming leader ---------------------------------------------------------


def test_the_epoch_begins_in_the_log_before_it_has_records(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    append(log, batch_of(3), epoch=4)
    leader = replicated(log, epoch=6)
    assert [tuple(entry) for entry in log.epochs.entries] == [(4, 0), (6, 3)]
    assert log.end_offset_for_epoch(leader.epoch) == (6, 3)
    assert log.end_offset_for_epoch(type(leader.epoch)(5)) == (4, 3)
    assert leader.epoch_start_offset == 3
    with pytest.raises(BrokerError) as fenced:
        append(log, epoch=5)
    assert fenced.value.code is ErrorCode.fenced_leader_epoch


def written_epochs(folder: Path, log: Log) -> list[str]:
    checkpoint = folder / str(log.partition) / "leader-epoch-checkpoint"
    return checkpoint.read_text().splitlines()[2:]


def test_the_epoch_is_written_down_with_its_first_record(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    append(log, batch_of(3), epoch=4)
    leader = replicated(log, epoch=6)
    assert written_epochs(tmp_path, log) == ["4 0"]
    grow(leader)
    assert written_epochs(tmp_path, log) == ["4 0", "6 3"]
    assert not log.is_unsettled


def test_a_log_that_led_without_a_record_is_opened_again_without_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_partition(tmp_path)
    append(log, batch_of(3), epoch=4)
    replicated(log, epoch=6)
    log.close(NOW)
    monkeypatch.setattr(Log, "write_epochs", lambda _: pytest.fail("epochs were written"))
    again = open_partition(tmp_path)
    assert [tuple(entry) for entry in again.epochs.entries] == [(4, 0)]


def test_a_log_that_is_cut_after_it_led_without_a_record_forgets_that_epoch(
    tmp_path: Path,
) -> None:
    log = open_partition(tmp_path)
    append(log, batch_of(3), epoch=4)
    append(log, batch_of(3), epoch=4)
    replicated(log, epoch=6)
    log.truncate_to(Offset(3), NOW)
    append(log, epoch=5)
    assert written_epochs(tmp_path, log) == ["4 0", "5 3"]
    assert not log.is_unsettled


def test_a_new_leader_begins_with_the_high_watermark_that_it_knew(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    append(log, batch_of(3))
    assert replicated(log, high_watermark=2).high_watermark == 2
    assert replicated(log, high_watermark=9).high_watermark == 3


def test_a_leader_alone_in_sync_has_committed_everything(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    append(log, batch_of(3))
    assert replicated(log, isr=(ME,)).high_watermark == 3
    assert sole_leader(log).high_watermark == 3


# -- the high watermark ------------------------------------------------------


def test_what_is_appended_is_committed_when_all_in_sync_have_it(tmp_path: Path) -> None:
    leader = replicated(open_partition(tmp_path))
    assert grow(leader, 5) == 5
    assert leader.high_watermark == 0
    assert leader.on_follower_fetch(F2, 5, 0, 1) == (False, True, None)
    assert leader.high_watermark == 0
    assert leader.on_follower_fetch(F3, 3, 0, 2) == (True, True, None)
    assert leader.high_watermark == 3
    assert leader.on_follower_fetch(F3, 5, 0, 3) == (True, False, None)
    assert leader.high_watermark == 5


def test_a_follower_that_lost_records_does_not_lower_the_high_watermark(
    tmp_path: Path,
) -> None:
    leader = replicated(open_partition(tmp_path), isr=(ME, F2), replicas=(ME, F2))
    grow(leader, 5)
    leader.on_follower_fetch(F2, 5, 0, 1)
    leader.on_follower_fetch(F2, 2, 0, 2)
    assert leader.high_watermark == 5


def test_a_follower_that_lost_what_was_committed_is_no_longer_in_sync_until_it_has_it(
    tmp_path: Path,
) -> None:
    leader = replicated(open_partition(tmp_path), isr=(ME, F2, F3), replicas=(ME, F2, F3))
    grow(leader, 5)
    for follower in (F2, F3):
        leader.on_follower_fetch(follower, 5, 0, 1)
    grow(leader, 3)
    assert leader.on_follower_fetch(F2, 5, 0, 2).isr_change is None  # it only has to catch up
    assert leader.on_follower_fetch(F2, 3, 0, 3).isr_change is None  # it may be an old request
    change = leader.on_follower_fetch(F2, 4, 0, 3).isr_change
    assert change is not None
    assert (change.before, change.isr) == ((ME, F2, F3), (ME, F3))
    assert leader.on_follower_fetch(F2, 3, 0, 4).isr_change is None  # it is on its way
    leader.apply_isr(change.isr, leader.partition_epoch + 1)
    assert leader.on_follower_fetch(F2, 4, 0, 5).isr_change is None
    again = leader.on_follower_fetch(F2, 5, 0, 6).isr_change
    assert again is not None
    assert again.isr == (ME, F3, F2)


def test_an_old_request_that_comes_late_costs_a_follower_nothing(tmp_path: Path) -> None:
    leader = replicated(open_partition(tmp_path), isr=(ME, F2), replicas=(ME, F2))
    grow(leader, 5)
    for at, offset in enumerate((0, 5, 2, 5, 3, 5)):
        assert leader.on_follower_fetch(F2, offset, 0, at).isr_change is None
    assert leader.high_watermark == 5


def test_a_shrunk_isr_commits_what_the_rest_has(tmp_path: Path) -> None:
    leader = replicated(open_partition(tmp_path))
    grow(leader, 5)
    leader.on_follower_fetch(F2, 5, 0, 1)
    assert not leader.on_time(LAG + 1, LAG)
    change = leader.decide_shrink(LAG + 1, LAG)
    assert change is not None
    assert change.isr == (ME, F2)
    leader.begin_isr_change(change)
    assert leader.high_watermark == 0
    assert leader.apply_isr(change.isr, 1)
    assert (leader.high_watermark, leader.isr, leader.partition_epoch) == (5, (ME, F2), 1)


def test_a_follower_out_of_sync_does_not_hold_the_high_watermark_for_long(tmp_path: Path) -> None:
    leader = replicated(open_partition(tmp_path), isr=(ME,), replicas=(ME, F2), dead=(F3,))
    grow(leader, 1)
    leader.begin_isr_change(IsrChange(leader.topic_partition, ME, leader.epoch, 7, 0, (ME,), (ME,)))
    leader.on_follower_fetch(F2, 1, 0, 0)
    grow(leader, 1)
    assert leader.high_watermark == 1
    assert not leader.on_time(LAG, LAG)
    assert leader.on_time(LAG + 1, LAG)
    assert leader.high_watermark == 2


def test_too_few_in_sync_commit_nothing(tmp_path: Path) -> None:
    leader = replicated(open_partition(tmp_path), isr=(ME,), replicas=(ME, F2))
    leader.log.config = asking_for(2)
    grow(leader, 1)
    assert (leader.high_watermark, leader.min_isr, leader.is_under_min_isr) == (0, 2, True)
    with pytest.raises(BrokerError) as refused:
        leader.check_in_sync()
    assert refused.value.code == ErrorCode.not_enough_replicas
    leader.apply_isr((ME, F2), 1)
    leader.check_in_sync()
    leader.on_follower_fetch(F2, 1, 0, 1)
    assert leader.high_watermark == 1


def test_no_more_replicas_are_asked_for_than_there_are(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    log.config = asking_for(3)
    assert sole_leader(log).min_isr == 1
    leader = replicated(log, isr=(ME, F2), replicas=(ME, F2))
    leader.check_in_sync()
    assert leader.min_isr == 2


# -- joining -----------------------------------------------------------------


def test_a_follower_joins_at_the_high_watermark(tmp_path: Path) -> None:
    leader = replicated(open_partition(tmp_path), isr=(ME, F2))
    grow(leader, 5)
    leader.on_follower_fetch(F2, 3, 0, 1)
    assert leader.on_follower_fetch(F3, 2, 0, 2).isr_change is None
    change = leader.on_follower_fetch(F3, 3, 0, 3).isr_change
    assert change is not None
    assert (change.before, change.isr, change.leader) == ((ME, F2), ALL, ME)
    # It counts from now on, though the tree does not know of it yet.
    leader.on_follower_fetch(F2, 5, 0, 4)
    assert leader.high_watermark == 3
    assert leader.isr == (ME, F2)


def test_a_follower_does_not_join_before_it_has_what_was_there_when_the_epoch_began(
    tmp_path: Path,
) -> None:
    log = open_partition(tmp_path)
    append(log, batch_of(5))
    leader = replicated(log, isr=(ME, F2), high_watermark=2, epoch=1)
    assert leader.on_follower_fetch(F3, 4, 0, 1).isr_change is None
    assert leader.on_follower_fetch(F3, 5, 0, 1).isr_change is not None


def test_replicas_that_are_not_assigned_are_refused(tmp_path: Path) -> None:
    leader = replicated(open_partition(tmp_path), isr=(ME, F2), replicas=(ME, F2))
    leader.check_follower(F2, 0)
    for known, code in (
        (0, ErrorCode.unknown_leader_epoch),
        (-1, ErrorCode.not_leader_or_follower),
    ):
        with pytest.raises(BrokerError) as refused:
            leader.check_follower(F3, known)
        assert refused.value.code == code


def test_what_the_tree_holds_is_not_taken_back_by_older_news(tmp_path: Path) -> None:
    leader = replicated(open_partition(tmp_path), partition_epoch=3)
    assert not leader.apply_isr((ME,), 3)
    assert not leader.on_leadership(leadership(leader.topic_partition, partition_epoch=2))
    assert leader.isr == ALL
    assert not leader.is_sole


def test_a_leader_whose_followers_were_taken_away_is_alone(tmp_path: Path) -> None:
    leader = replicated(open_partition(tmp_path))
    grow(leader, 2)
    assert leader.on_leadership(leadership(leader.topic_partition, partition_epoch=1))
    assert (leader.is_sole, leader.high_watermark) == (True, 2)


def test_replicas_that_are_being_added_are_not_missing_yet(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    assert not replicated(log).is_under_replicated
    assert replicated(log, isr=(ME, F2)).is_under_replicated
    assert not replicated(log, isr=(ME, F2), adding=(F3,)).is_under_replicated


# -- deleting records --------------------------------------------------------


def test_the_low_watermark_follows_the_slowest_of_the_living(tmp_path: Path) -> None:
    leader = replicated(open_partition(tmp_path), dead=(F3,))
    grow(leader, 5)
    leader.on_follower_fetch(F2, 5, 0, 1)
    leader.on_follower_fetch(F3, 5, 0, 1)
    assert leader.delete_records_before(4) == 4
    assert (leader.log.log_start_offset, leader.low_watermark) == (4, 0)
    assert leader.on_follower_fetch(F2, 5, 4, 2).log_start_moved
    assert leader.low_watermark == 4


def test_what_is_not_committed_is_not_deleted(tmp_path: Path) -> None:
    leader = replicated(open_partition(tmp_path))
    grow(leader, 5)
    for offset in (1, -2):
        with pytest.raises(BrokerError) as refused:
            leader.delete_records_before(offset)
        assert refused.value.code == ErrorCode.offset_out_of_range


# -- on any history ----------------------------------------------------------


class Cluster:
    """A leader, followers that only have an end, and a tree that answers late or not at all."""

    def __init__(self, log: Log, chance: random.Random) -> None:
        self.chance = chance
        log.config = asking_for(chance.randint(1, 3))
        self.leader = replicated(log, isr=chance.choice([ALL, (ME, F2), (ME,)]))
        self.ends = {F2: 0, F3: 0}
        self.tree = (self.leader.isr, 0)
        self.change: IsrChange | None = None
        self.now_ms = 0.0
        # The most that was ever committed, and who was in sync in the tree meanwhile.
        self.committed = 0

    def append(self) -> None:
        grow(self.leader, self.chance.randint(1, 3))

    def replicate(self) -> None:
        follower = self.chance.choice((F2, F3))
        end = self.leader.log.log_end_offset
        self.ends[follower] = self.chance.randint(self.ends[follower], end)
        progress = self.leader.on_follower_fetch(follower, self.ends[follower], 0, self.now_ms)
        self.change = progress.isr_change or self.change

    def wait(self) -> None:
        self.now_ms += self.chance.randint(0, LAG)
        self.leader.on_time(self.now_ms, LAG)

    def shrink(self) -> None:
        change = self.leader.decide_shrink(self.now_ms, LAG)
        if change is not None:
            self.leader.begin_isr_change(change)
            self.change = change

    def write(self) -> None:
        """The change reaches the tree; the answer comes at once, later, or with other news."""
        change, version = self.change, self.tree[1]
        if change is not None and change.partition_epoch == version:
            self.tree = (change.isr, version + 1)

    def answer(self) -> None:
        if self.change is not None and self.tree[1] > self.change.partition_epoch:
            self.leader.apply_isr(*self.tree)
            self.change = None

    def hear(self) -> None:
        isr, version = self.tree
        told = leadership(
            self.leader.topic_partition, isr=isr, replicas=ALL, partition_epoch=version
        )
        self.leader.on_leadership(told)
        if self.change is not None and version > self.change.partition_epoch:
            self.change = None

    def check(self) -> None:
        high_watermark = self.leader.high_watermark
        assert self.committed <= high_watermark <= self.leader.log.log_end_offset
        if high_watermark > self.committed:
            assert len(self.leader.isr) >= self.leader.min_isr
        self.committed = high_watermark
        # Whomever the controller would elect has all that is committed.
        for replica in self.tree[0]:
            assert replica == ME or self.ends[replica] >= high_watermark, self.tree


STEPS = (
    "append",
    "replicate",
    "replicate",
    "replicate",
    "wait",
    "shrink",
    "write",
    "answer",
    "hear",
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_every_replica_in_the_isr_has_all_committed_records(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = open_partition(folder)
    cluster = Cluster(log, random.Random(seed))
    for _ in range(60):
        getattr(cluster, cluster.chance.choice(STEPS))()
        cluster.check()
