"""One follower: what it takes of its leader, what it gives up, and how far it is committed."""

from pathlib import Path

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, LeaderEpoch, Offset
from barnabas.log.leader_epochs import EpochEnd
from barnabas.log.log import Log
from barnabas.replication.follower.epoch_truncation import decide_truncation
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.leadership import Leadership
from barnabas.wire.records.batch import read_header, stamp
from tests.log.batches import NOW, PARTITION, append, batch_of, open_partition
from tests.replication.following import FOLLOWER, LEADER, bytes_of


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_partition(tmp_path)


def following(log: Log, high_watermark: int = 0, epoch: int = 5) -> FollowerReplica:
    leadership = Leadership(
        PARTITION,
        None,
        LEADER,
        LeaderEpoch(epoch),
        isr=(LEADER,),
        partition_epoch=2,
        replicas=(LEADER, FOLLOWER),
        controller_epoch=1,
    )
    return FollowerReplica(FOLLOWER, leadership, log, high_watermark)


def epochs(log: Log, *lengths: tuple[int, int]) -> Log:
    """Let the log have so many records of each epoch."""
    for epoch, length in lengths:
        for _ in range(length):
            append(log, epoch=epoch)
    return log


def sent(tmp_path: Path, *lengths: tuple[int, int]) -> memoryview:
    """The batches that a leader with such a log sends."""
    return memoryview(bytes_of(epochs(open_partition(tmp_path / "leader"), *lengths)))


@pytest.mark.parametrize(
    ("stored", "taken"), [(0, 0), (3, 3), (10, 10), (99, 10)], ids=lambda n: str(n)
)
def test_the_high_watermark_of_a_checkpoint_counts_within_the_log(
    log: Log, stored: int, taken: int
) -> None:
    assert following(epochs(log, (0, 10)), stored).high_watermark == taken


def test_the_high_watermark_goes_with_the_leaders_up_to_the_logs_end(
    tmp_path: Path, log: Log
) -> None:
    follower = following(log)
    records = sent(tmp_path, (5, 10))
    assert follower.append(records, 4, 0, NOW).offsets_moved
    assert (follower.high_watermark, follower.lag) == (4, 0)
    assert follower.append(records[:0], 30, 0, NOW).offsets_moved
    assert (follower.high_watermark, follower.lag) == (10, 20)
    # A leader that was elected just now may know less: what is committed stays so.
    assert not follower.append(records[:0], 7, 0, NOW).offsets_moved
    assert follower.high_watermark == 10


def test_the_log_start_goes_with_the_leaders_up_to_what_is_committed(
    tmp_path: Path, log: Log
) -> None:
    follower = following(log)
    follower.append(sent(tmp_path, (5, 10)), 4, 3, NOW)
    assert log.log_start_offset == 3
    follower.append(memoryview(b""), 4, 9, NOW)
    assert log.log_start_offset == 4


def test_records_that_do_not_continue_the_log_are_refused_and_leave_it_alone(log: Log) -> None:
    follower = following(epochs(log, (5, 3)), 3)
    before = bytes_of(log)
    for wrong in (_at(1, 5), _at(3, 1, epoch=4)):
        with pytest.raises(BrokerError) as error:
            follower.append(wrong, 9, 0, NOW)
        assert error.value.code is ErrorCode.corrupt_message
    assert (bytes_of(log), follower.high_watermark) == (before, 3)


def test_an_empty_log_that_begins_within_a_batch_appends_the_whole_batch(log: Log) -> None:
    log.truncate_fully_and_start_at(Offset(5), NOW).run()
    follower = following(log, 5)
    followed = follower.append(_at(0, 10), 10, 5, NOW)
    assert followed.removal is not None
    assert (log.log_start_offset, log.log_end_offset, follower.high_watermark) == (5, 10, 10)


def test_a_log_whose_records_the_leader_has_deleted_begins_where_the_batch_does(log: Log) -> None:
    """An unclean election has replaced offsets 1 and 2, and DeleteRecords has removed them."""
    epochs(log, (1, 3))
    follower = following(log, 3)
    with pytest.raises(BrokerError, match="cannot follow"):
        follower.append(_at(1, 4), 5, 2, NOW)
    assert (log.log_start_offset, log.log_end_offset, follower.high_watermark) == (0, 3, 3)
    followed = follower.append(_at(1, 4), 5, 3, NOW)
    assert followed.removal is not None
    assert (log.log_start_offset, log.log_end_offset, follower.high_watermark) == (3, 5, 5)


def _at(base_offset: int, count: int, epoch: int = 5) -> memoryview:
    batch = batch_of(count)
    stamp(batch, base_offset, read_header(batch).batch_length, epoch)
    return batch


def test_a_newer_word_of_the_controller_counts_within_the_epoch(log: Log) -> None:
    follower = following(log)
    newer = Leadership(
        PARTITION, None, LEADER, LeaderEpoch(5), (LEADER, BrokerId(2)), 3, (), controller_epoch=1
    )
    older = Leadership(PARTITION, None, LEADER, LeaderEpoch(5), (), 1, (), controller_epoch=1)
    follower.on_leadership(newer)
    follower.on_leadership(older)
    assert follower.leadership is newer


@pytest.mark.parametrize(
    ("own", "leader", "kept"),
    [
        # The leader has less of the epoch, more of it, or all of it.
        ([(1, 10)], (1, 6), 6),
        ([(1, 10)], (1, 30), 10),
        ([(1, 10)], (1, 10), 10),
        # The leader does not have the last epoch: up to where the one before ended, on either side.
        ([(1, 10), (2, 5)], (1, 10), 10),
        ([(1, 10), (2, 5)], (1, 7), 7),
        ([(1, 10), (2, 5)], (1, 13), 10),
        # We do not have the leader's: what came after it goes, then the leader is asked again.
        ([(1, 10), (4, 5)], (3, 12), 10),
        ([(1, 4), (2, 4), (6, 5)], (5, 9), 8),
        # It is older than all that we have.
        ([(4, 5)], (2, 3), 0),
    ],
)
def test_the_logs_part_where_their_epochs_do(
    log: Log, own: list[tuple[int, int]], leader: tuple[int, int], kept: int
) -> None:
    epochs(log, *own)
    assert decide_truncation(log, EpochEnd(*leader)) == kept


def test_truncation_lowers_the_high_watermark(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    follower = following(epochs(log, (0, 10)), 6)
    follower.truncate_to_epoch(EpochEnd(0, 8), NOW)
    assert (log.log_end_offset, follower.high_watermark) == (8, 6)
    assert not caplog.messages
    follower.truncate_to_epoch(EpochEnd(0, 4), NOW)
    assert (log.log_end_offset, follower.high_watermark) == (4, 4)
    assert "truncated below the high watermark" in caplog.messages[0]


def test_an_epoch_without_records_is_forgotten_though_nothing_is_cut(log: Log) -> None:
    # It led, and was deposed before it wrote anything.
    epochs(log, (1, 5))
    log.epochs.assign(3, 5)
    log.write_epochs()
    follower = following(log, 5)
    assert follower.truncate_to_epoch(EpochEnd(1, 9), NOW) is None
    assert log.epochs.latest == 1
    assert log.log_end_offset == 5
