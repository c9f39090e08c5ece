"""Three replicas that led, wrote and lost any epochs: a follower becomes like its leader.

Any of them may be elected, also one that is not in sync; one that was deposed may write on until
it learns that; the leader's records may be deleted; anyone may crash. Then all follow the last
elected, and have the same batches from its log start on, of the same epochs.
"""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.log.follower_batches import checked_batches
from barnabas.log.leader_epochs import EpochEnd
from barnabas.replication.follower.epoch_truncation import decide_truncation
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.leadership import Leadership
from barnabas.wire.fetch.fetch_codec import FetchPartition
from tests.log.batches import CONFIG, NOW, PARTITION, open_partition, read_all
from tests.replication.following import FOLLOWER, LEADER
from tests.replication.scripted_leader import Led

REPLICA = st.integers(0, 2)
COUNTS = st.lists(st.integers(1, 4), min_size=1, max_size=4)
TOPIC_ID = UUID(int=7)
NO_EPOCH = -1  # of a replica that does not lead: an epoch has one leader
SMALL = replace(CONFIG, segment_bytes=1000)


class Divergence(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.epoch = 0
        self.written = 0
        self.replicas = [
            Led(open_partition(self.folder / str(n), SMALL), TOPIC_ID, NO_EPOCH) for n in range(3)
        ]
        self.leader = self.replicas[0]

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(which=REPLICA)
    def elect_first(self, which: int) -> None:
        self.elect(which, 1)

    @rule(which=REPLICA, counts=COUNTS)
    def elect_and_write(self, which: int, counts: list[int]) -> None:
        self.elect(which, 1)
        self.write(which, counts)

    @rule(which=REPLICA, skipped=st.integers(1, 2))
    def elect(self, which: int, skipped: int) -> None:
        """By an unclean election, if need be."""
        self.epoch += skipped
        self.leader = self.replicas[which]
        self.leader.lead(self.epoch)

    @rule(which=REPLICA, counts=COUNTS)
    def write(self, which: int, counts: list[int]) -> None:
        """Also by one that was deposed and does not know it."""
        replica = self.replicas[which]
        if replica.epoch >= max(0, replica.log.epochs.latest):
            for count in counts:
                self.written += 1
                replica.append(count, b"%d" % self.written)

    @rule(which=REPLICA, fetches=st.integers(1, 4), max_bytes=st.sampled_from((1, 200, 5000)))
    def follow(self, which: int, fetches: int, max_bytes: int) -> None:
        """Some fetches, which need not be enough."""
        if self.replicas[which] is not self.leader:
            follower = self.follower(which)
            for _ in range(fetches):
                self.fetch(follower, max_bytes)

    @precondition(lambda self: self.leader.high_watermark > self.leader.log.log_start_offset)
    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        # A leader that was not in sync has less than what the others knew to be committed.
        log = self.leader.log
        end = min(self.leader.high_watermark, log.log_end_offset)
        log.delete_records_before(Offset(int(log.log_start_offset * (1 - part) + end * part)))

    @rule(which=REPLICA)
    def crash(self, which: int) -> None:
        replica = self.replicas[which]
        start = replica.log.log_start_offset
        folder = self.folder / str(which)
        replica.log = open_partition(folder, SMALL, clean=False, log_start_offset=start)
        if replica is self.leader:
            self.elect(which, 1)

    @rule()
    def all_follow(self) -> None:
        for which, replica in enumerate(self.replicas):
            if replica is not self.leader:
                follower = self.follower(which)
                rounds = 0
                while self.fetch(follower, 5000):
                    rounds += 1
                    assert rounds < 10 + self.epoch + self.written, "it never comes to an end"
                self.check_same(follower)

    def follower(self, which: int) -> FollowerReplica:
        leadership = Leadership(
            PARTITION, TOPIC_ID, LEADER, LeaderEpoch(self.epoch), (), 0, (), controller_epoch=1
        )
        replica = self.replicas[which]
        replica.epoch = NO_EPOCH  # now it knows that it does not lead
        return FollowerReplica(FOLLOWER, leadership, replica.log, 0)

    def fetch(self, follower: FollowerReplica, max_bytes: int) -> bool:
        """True if there was anything to do."""
        log = follower.log
        before = (log.log_end_offset, log.epochs.latest)
        answer = self.leader.read(
            FetchPartition(0, before[0], max_bytes, self.epoch, before[1], log.log_start_offset)
        )
        if answer.code == ErrorCode.offset_out_of_range:
            if self.leader.log.log_end_offset < log.log_end_offset:
                follower.truncate_to(self.leader.log.log_end_offset, NOW)
            else:
                follower.start_anew_at(self.leader.log.log_start_offset, NOW).run()
        elif answer.diverging_epoch is not None:
            leader = EpochEnd(*answer.diverging_epoch)
            assert decide_truncation(log, leader) <= before[0]
            if removal := follower.truncate_to_epoch(leader, NOW):
                removal.run()
            assert (log.log_end_offset, log.epochs.latest) < before
        else:
            assert not answer.code
            for batches in checked_batches(memoryview(answer.records), self.epoch, 300):
                follower.append(batches, answer.high_watermark, answer.log_start_offset, NOW)
        return (log.log_end_offset, log.epochs.latest) != before

    def check_same(self, follower: FollowerReplica) -> None:
        mine, theirs = follower.log, self.leader.log
        assert mine.log_end_offset == theirs.log_end_offset
        start = max(mine.log_start_offset, theirs.log_start_offset)
        assert read_all(mine, start) == read_all(theirs, start)
        for offset in range(start, mine.log_end_offset):
            assert mine.epochs.epoch_for_offset(offset) == theirs.epochs.epoch_for_offset(offset)
        assert follower.high_watermark <= mine.log_end_offset


Divergence.TestCase.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)
TestDivergence = Divergence.TestCase
