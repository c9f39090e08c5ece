"""The log of one partition: what it promises to leaders, followers, consumers and operators."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.log.log import Log
from barnabas.wire.records.batch import headers, read_header, stamp
from tests.log.batches import (
    CONFIG,
    NOW,
    append,
    batch_of,
    content,
    fill,
    names,
    open_partition,
    read_all,
)
from tests.support.full_disk import room_for

FOLDER = "orders-0"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_partition(tmp_path)


def test_a_batch_gets_the_next_offsets_and_the_leaders_epoch(log: Log) -> None:
    assert append(log, batch_of(3), epoch=5) == (0, 3, -1)
    batch = batch_of(2)
    assert append(log, batch, epoch=5) == (3, 5, -1)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (3, 5)
    assert log.log_end_offset == 5
    assert read_all(log)[1] == bytes(batch)


def test_append_by_a_past_leader_is_fenced_and_leaves_the_log_alone(log: Log) -> None:
    append(log, epoch=5)
    with pytest.raises(BrokerError) as error:
        append(log, epoch=4)
    assert error.value.code is ErrorCode.fenced_leader_epoch
    assert (log.log_end_offset, list(log.epochs.entries)) == (1, [(5, 0)])


def test_leader_epochs_are_remembered_and_written_down(log: Log) -> None:
    for epoch in (0, 0, 3, 4, 4):
        append(log, epoch=epoch)
    assert log.disk.load(f"{FOLDER}/leader-epoch-checkpoint") == b"0\n3\n0 0\n3 2\n4 3\n"
    assert log.end_offset_for_epoch(LeaderEpoch(0)) == (0, 2)
    assert log.end_offset_for_epoch(LeaderEpoch(2)) == (0, 2)
    assert log.end_offset_for_epoch(LeaderEpoch(4)) == (4, 5)


def test_a_follower_keeps_offsets_and_epochs_as_given(tmp_path: Path) -> None:
    leader = open_partition(tmp_path / "leader")
    follower = open_partition(tmp_path / "follower")
    written = fill(leader, 5, count=2)
    append(leader, last := batch_of(), epoch=3)
    written.append(bytes(last))
    assert follower.append_as_follower(b"".join(written[:2]), NOW) == (0, 4, -1)
    assert follower.append_as_follower(b"".join(written[2:]) + b"half a batch", NOW) == (4, 11, -1)
    assert read_all(follower) == written
    assert follower.epochs.entries == leader.epochs.entries
    assert follower.append_as_follower(b"", NOW) == (11, 11, -1)


def test_a_follower_rolls_like_a_leader(tmp_path: Path) -> None:
    leader = open_partition(tmp_path / "leader")
    follower = open_partition(tmp_path / "follower")
    for batch in fill(leader, 100):
        follower.append_as_follower(batch, NOW)
    assert [s.base_offset for s in follower.segments] == [s.base_offset for s in leader.segments]
    leader.close(NOW)
    follower.close(NOW)
    for name in leader.disk.list(FOLDER):
        assert follower.disk.load(f"{FOLDER}/{name}") == leader.disk.load(f"{FOLDER}/{name}")


def test_a_follower_refuses_what_cannot_follow(tmp_path: Path) -> None:
    leader = open_partition(tmp_path / "leader")
    follower = open_partition(tmp_path / "follower")
    written = fill(leader, 3)
    append(leader, newer := batch_of(), epoch=2)
    follower.append_as_follower(b"".join(written), NOW)
    for wrong in (written[2], written[0]):
        with pytest.raises(BrokerError) as error:
            follower.append_as_follower(wrong, NOW)
        assert error.value.code is ErrorCode.corrupt_message
    follower.append_as_follower(newer, NOW)
    assert follower.log_end_offset == 4


def test_gaps_that_compaction_left_are_read_over(tmp_path: Path) -> None:
    leader = open_partition(tmp_path / "leader")
    follower = open_partition(tmp_path / "follower", replace(CONFIG, segment_bytes=1000))
    written = fill(leader, 100)
    kept = [*written[5:8], *written[40:41], *written[70:99]]
    for batch in kept:
        follower.append_as_follower(batch, NOW)
    assert len(follower.segments) > 1
    for offset in range(99):
        later = [batch for batch in kept if read_header(batch).base_offset >= offset]
        assert read_all(follower, offset) == later


def test_a_reader_may_read_up_to_an_offset_that_compaction_removed(tmp_path: Path) -> None:
    leader = open_partition(tmp_path / "leader")
    follower = open_partition(tmp_path / "follower", replace(CONFIG, segment_bytes=300))
    written = fill(leader, 20)
    for number in (0, 1, 9, 10):
        follower.append_as_follower(written[number], NOW)
    assert [segment.base_offset for segment in follower.segments] == [0, 2]
    follower.close(NOW)
    for log in (follower, open_partition(tmp_path / "follower")):
        for upto in (2, 5, 9):
            extent = log.locate(Offset(0), 10_000, Offset(upto))
            assert content(extent) == b"".join(written[:2])
        assert log.locate(Offset(5), 10_000, Offset(9)).size == 0


@pytest.mark.parametrize("offset", [-1, 4, 11])
def test_an_offset_outside_the_log_is_refused(log: Log, offset: int) -> None:
    fill(log, 10)
    log.delete_records_before(Offset(5))
    with pytest.raises(BrokerError) as error:
        log.locate(Offset(offset), 1000, log.log_end_offset)
    assert error.value.code is ErrorCode.offset_out_of_range


def test_a_reader_sees_nothing_at_or_beyond_the_offset_it_may_read_up_to(log: Log) -> None:
    written = fill(log, 100)
    for start in range(0, 100, 7):
        for upto in range(101):
            seen, offset = b"", start
            while data := content(log.locate(Offset(offset), 700, Offset(upto))):
                seen += data
                offset = [header for _, header in headers(data)][-1].next_offset
            assert seen == b"".join(written[start:upto])


def test_a_reader_that_reads_on_is_given_what_it_would_be_shown_the_way_to(log: Log) -> None:
    fill(log, 100)
    for upto in (13, 50, 99, 100):
        for most in (1, 150, 700, 10_000):
            offset = 0
            while data := log.read_warm(Offset(offset), most, Offset(upto)):
                extent = log.locate(Offset(offset), most, Offset(upto), minimum_one=True)
                assert content(extent) == data
                offset = [header for _, header in headers(data)][-1].next_offset
            assert offset == upto


def test_large_extents_are_served_from_memory_as_the_log_grows(tmp_path: Path) -> None:
    log = open_partition(tmp_path, replace(CONFIG, segment_bytes=100_000_000))
    value = os.urandom(100_000)
    written = []
    for _ in range(30):
        written += fill(log, 1, value=value)
        for number in (0, len(written) // 2, len(written) - 1):
            extent = log.locate(Offset(number), 1_000_000, log.log_end_offset)
            assert content(extent) == b"".join(written[number : number + 9])


def test_a_failed_write_leaves_the_log_as_it_was_and_stops_it(log: Log) -> None:
    written = fill(log, 3)
    with room_for(len(b"".join(written)) + 10), pytest.raises(DiskFault):
        append(log)
    assert log.failure is not None
    with pytest.raises(DiskFault):
        append(log)
    assert read_all(log) == written
    assert log.log_end_offset == 3
    assert log.disk.load(f"{FOLDER}/{0:020}.log") == b"".join(written)


def test_rolling_leaves_trimmed_indexes_and_a_snapshot(log: Log) -> None:
    assert not log.roll(NOW)
    fill(log, 10)
    assert log.roll(NOW)
    assert not log.roll(NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert names(log, ".snapshot") == [f"{10:020}.snapshot"]
    old, new = (log.disk.load(f"{FOLDER}/{base:020}.index") or b"" for base in (0, 10))
    assert len(old) % 8 == 0
    assert len(new) == 1200
    assert read_all(log)[-1:] == read_all(log, 9)


def test_timestamps_are_found_across_segments(log: Log) -> None:
    fill(log, 100)
    for number in range(100):
        found = log.offset_for_timestamp(NOW + number * 10 - 9)
        assert found is not None
        assert (found.offset, found.timestamp, found.leader_epoch) == (number, NOW + number * 10, 0)
    assert log.offset_for_timestamp(NOW + 991) is None
    latest = log.max_timestamp_offset()
    assert latest is not None
    assert (latest.offset, latest.timestamp) == (99, NOW + 990)
    log.delete_records_before(Offset(50))
    first = log.offset_for_timestamp(0)
    assert first is not None
    assert first.offset == 50


def test_a_follower_rolls_an_empty_segment_that_lies_too_far_behind(tmp_path: Path) -> None:
    """A leader that compacts may have nothing at all in its first billions of offsets."""
    log = open_partition(tmp_path)
    batches = [batch_of(value=b"value" * 50) for _ in range(5)]
    for offset, batch in enumerate(batches, 2**32):
        stamp(batch, offset, read_header(batch).batch_length, LeaderEpoch(0))
    log.append_as_follower(b"".join(batches), NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2**32]
    log.close(NOW)
    for clean in (True, False):
        log = open_partition(tmp_path, clean=clean)
        assert (log.log_start_offset, log.log_end_offset) == (0, 2**32 + 5)
        assert read_all(log) == [bytes(batch) for batch in batches]


def test_a_preallocated_segment_is_as_long_as_it_may_get_until_it_rests(tmp_path: Path) -> None:
    def sizes() -> list[int]:
        return [path.stat().st_size for path in sorted((tmp_path / FOLDER).glob("*.log"))]

    log = open_partition(tmp_path, replace(CONFIG, preallocate=True))
    written = fill(log, 60)
    *full, active = (segment.size for segment in log.segments)
    assert sizes() == [*full, CONFIG.segment_bytes]
    assert read_all(log) == written
    crashed = open_partition(tmp_path, replace(CONFIG, preallocate=True), clean=False)
    assert sizes() == [*full, active]
    assert read_all(crashed) == written
    crashed.roll(NOW)
    written += fill(crashed, 1)
    assert sizes() == [*full, active, CONFIG.segment_bytes]
    crashed.close(NOW)
    assert sizes() == [*full, active, len(written[-1])]
    assert read_all(open_partition(tmp_path)) == written
