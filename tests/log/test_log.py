"""The log of one partition: what it promises to leaders, followers, consumers and operators."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.log.log import Log
from barnabas.log.segment import Segment
from barnabas.log.transaction_index import decode_aborted
from barnabas.wire.batch import headers, read_header, stamp
from barnabas.wire.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
)
from tests.log.batches import (
    CONFIG,
    NOW,
    append,
    batch_of,
    content,
    fill,
    open_partition,
    read_all,
)
from tests.support.full_disk import room_for

FOLDER = "orders-0"
DAY_MS = 86_400_000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_partition(tmp_path)


def names(log: Log, suffix: str) -> list[str]:
    return [name for name in log.disk.list(FOLDER) if name.endswith(suffix)]


def idempotent(sequence: int, *, transactional: bool = False, epoch: int = 0) -> memoryview:
    record = Record(0, NOW, b"key", b"value", ())
    return memoryview(
        bytearray(
            build_batch(
                [record],
                producer_id=9,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
        )
    )


def test_a_batch_gets_the_next_offsets_and_the_leaders_epoch(log: Log) -> None:
    assert append(log, batch_of(3), epoch=5) == (0, 3)
    batch = batch_of(2)
    assert append(log, batch, epoch=5) == (3, 5)
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
    assert follower.append_as_follower(b"".join(written[:2]), NOW) == (0, 4)
    assert follower.append_as_follower(b"".join(written[2:]) + b"half a batch", NOW) == (4, 11)
    assert read_all(follower) == written
    assert follower.epochs.entries == leader.epochs.entries
    assert follower.append_as_follower(b"", NOW) == (11, 11)


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


def failing_after(times: int, rename: Callable[[str, str], None]) -> Callable[[str, str], None]:
    left = iter(range(times))

    def renames_or_fails(path: str, new_path: str) -> None:
        if next(left, None) is None:
            raise DiskFault("", OSError(errno.EIO, "Input/output error"))
        rename(path, new_path)

    return renames_or_fails


@pytest.mark.parametrize("renames", range(0, 15, 2))
def test_a_crash_amid_truncation_leaves_no_gap(
    log: Log, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    written = fill(log, 150)
    monkeypatch.setattr(log.disk, "rename", failing_after(renames, log.disk.rename))
    with pytest.raises(DiskFault):
        log.truncate_to(Offset(3), NOW)
    assert log.failure is not None
    found = read_all(open_partition(log.disk, clean=False))
    assert len(found) >= 3
    assert found == written[: len(found)]


@pytest.mark.parametrize("renames", range(0, 15, 2))
def test_a_crash_amid_retention_leaves_no_gap(
    log: Log, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    written = fill(log, 150)
    monkeypatch.setattr(log.disk, "rename", failing_after(renames, log.disk.rename))
    with pytest.raises(DiskFault):
        log.delete_segments(log.segments[:-1], NOW)
    found = read_all(open_partition(log.disk, clean=False))
    assert found
    assert found == written[-len(found) :]


@pytest.mark.parametrize("cut", range(0, 101, 5))
def test_after_truncation_the_log_is_as_if_nothing_had_been_beyond(
    tmp_path: Path, cut: int
) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 60)
    for _ in range(40):
        append(log, batch := batch_of(), epoch=2)
        written.append(bytes(batch))
    log.flush(NOW)
    removal = log.truncate_to(Offset(cut), NOW)
    assert read_all(log) == written[:cut]
    assert log.log_end_offset == log.recovery_point == cut
    assert log.epochs.latest == (2 if cut > 60 else 0 if cut else -1)
    if removal:
        assert all(path.endswith(".deleted") for path in removal.paths)
        removal.run()
    more = fill(open_partition(tmp_path, clean=False), 30) if cut <= 60 else []
    assert read_all(open_partition(tmp_path, clean=False)) == written[:cut] + more


def test_a_flush_that_a_truncation_overtook_proves_nothing(log: Log) -> None:
    fill(log, 10)
    flush = log.start_flush()
    log.truncate_to(Offset(5), NOW)
    fill(log, 10)
    flush.run()
    log.on_flushed(flush, NOW)
    assert log.recovery_point == 0
    log.flush(NOW)
    assert log.recovery_point == 15


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_each_of_several_flushes_proves_its_own_part(log: Log, order: tuple[int, ...]) -> None:
    flushes = []
    for _ in range(3):
        fill(log, 5)
        flushes.append(log.start_flush())
    for earlier, later in pairwise(flushes):
        assert set(earlier.paths) <= set(later.paths)
    proven = 0
    for number in order:
        flushes[number].run()
        log.on_flushed(flushes[number], NOW)
        proven = max(proven, flushes[number].offset)
        assert log.recovery_point == proven
    assert log.start_flush().paths == []


def test_the_log_can_begin_anew_elsewhere(log: Log) -> None:
    fill(log, 60)
    log.truncate_fully_and_start_at(Offset(1000), NOW).run()
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (1000, 1000, 0)
    assert log.epochs.entries == ()
    assert append(log, epoch=0) == (1000, 1001)
    assert names(log, ".log") == [f"{1000:020}.log"]


def test_deleted_records_are_gone_at_once_and_their_space_with_retention(log: Log) -> None:
    written = fill(log, 100)
    third = log.segments[2].base_offset
    log.delete_records_before(Offset(third + 1))
    assert read_all(log) == written[third + 1 :]
    assert list(log.epochs.entries) == [(0, third + 1)]
    deletable = log.deletable_segments(NOW, log.log_end_offset)
    assert [segment.base_offset for segment in deletable] == [0, log.segments[1].base_offset]
    assert log.delete_segments(deletable, NOW)
    assert log.log_start_offset == third + 1
    with pytest.raises(BrokerError):
        log.delete_records_before(Offset(101))


def test_retention_by_size_deletes_whole_old_segments_only(log: Log) -> None:
    fill(log, 100)
    sizes = [segment.size for segment in log.segments]
    log.config = replace(CONFIG, retention_bytes=sum(sizes[2:]) - 1)
    assert list(log.deletable_segments(NOW, log.log_end_offset)) == list(log.segments[:2])
    log.config = replace(CONFIG, retention_bytes=sum(sizes[1:]) + 1)
    assert log.deletable_segments(NOW, log.log_end_offset) == []
    log.config = replace(CONFIG, retention_bytes=0, cleanup_policy=("compact",))
    assert log.deletable_segments(NOW, log.log_end_offset) == []


def test_retention_by_time_looks_at_the_latest_record_of_a_segment(log: Log) -> None:
    fill(log, 100)
    log.config = replace(CONFIG, retention_ms=DAY_MS)
    second = log.segments[1]
    now = second.max_timestamp + DAY_MS
    assert log.deletable_segments(now, log.log_end_offset) == [log.segments[0]]
    assert len(log.deletable_segments(now + 1, log.log_end_offset)) == 2
    assert log.deletable_segments(now + 1, Offset(second.base_offset)) == [log.segments[0]]


def test_when_everything_is_too_old_a_new_segment_begins_first(log: Log) -> None:
    fill(log, 100)
    deletable = log.deletable_segments(NOW + 30 * DAY_MS, log.log_end_offset)
    assert list(deletable) == list(log.segments)
    removal = log.delete_segments(deletable, NOW)
    assert removal is not None
    assert removal.delay_ms == CONFIG.file_delete_delay_ms
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (100, 100, 0)
    assert names(log, ".log") == [f"{100:020}.log"]
    assert len(names(log, ".log.deleted")) == len(deletable)
    removal.run()
    assert names(log, ".deleted") == []
    assert log.deletable_segments(NOW + 30 * DAY_MS, log.log_end_offset) == []
    assert append(log) == (100, 101)


def test_what_a_reader_holds_stays_readable_when_its_segment_goes(log: Log) -> None:
    written = fill(log, 100)
    extent = log.locate(Offset(0), 500, log.log_end_offset)
    removal = log.delete_segments(log.segments[:2], NOW)
    assert removal is not None
    removal.run()
    assert content(extent) == b"".join(written[: extent.size // len(written[0])])


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


def test_flush_is_due_by_messages_and_by_time(log: Log) -> None:
    log.config = replace(CONFIG, flush_messages=3, flush_ms=1000)
    assert not log.is_flush_due(NOW + 5000)
    fill(log, 2)
    assert not log.is_flush_due(NOW + 999)
    assert log.is_flush_due(NOW + 1000)
    fill(log, 1)
    assert log.is_flush_due(NOW)
    assert log.unflushed_messages == 3
    log.flush(NOW)
    assert (log.unflushed_messages, log.recovery_point) == (0, 3)
    assert log.start_flush().paths == []


def test_a_rolled_segment_is_flushed_with_its_indexes_and_snapshot(log: Log) -> None:
    fill(log, 5)
    log.flush(NOW)
    states = [log.is_rolled_unflushed]
    fill(log, 5)
    log.roll(NOW)
    fill(log, 5)
    states.append(log.is_rolled_unflushed)
    flush = log.start_flush(rolled_only=True)
    rolled = {f"{FOLDER}/{0:020}{suffix}" for suffix in (".log", ".index", ".timeindex")}
    assert rolled <= set(flush.paths)
    assert f"{FOLDER}/{10:020}.log" not in flush.paths
    flush.run()
    log.on_flushed(flush, NOW)
    states.append(log.is_rolled_unflushed)
    assert (log.recovery_point, states) == (10, [False, True, False])
    assert {f"{FOLDER}/{10:020}{suffix}" for suffix in (".log", ".snapshot", ".txnindex")} == set(
        log.start_flush().paths
    )


def test_indexes_trimmed_after_the_last_append_are_flushed_too(log: Log) -> None:
    fill(log, 5)
    log.flush(NOW)
    log.roll(NOW)
    assert f"{FOLDER}/{0:020}.index" in log.start_flush().paths


def test_producers_are_known_again_after_clean_stop_crash_and_truncation(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    for sequence in range(40):
        append(log, idempotent(sequence))
    before = log.producers.check(read_header(idempotent(39)))
    assert before is not None
    assert before.base_offset == 39
    log.close(NOW)
    assert names(log, ".snapshot")[-1] == f"{40:020}.snapshot"
    for clean in (True, False):
        log = open_partition(tmp_path, clean=clean)
        again = log.producers.check(read_header(idempotent(39)))
        assert again is not None
        assert again.base_offset == 39
    log.truncate_to(Offset(20), NOW)
    assert log.producers.check(read_header(idempotent(20))) is None
    with pytest.raises(BrokerError):
        log.producers.check(read_header(idempotent(39)))
    assert all(name <= f"{20:020}.snapshot" for name in names(log, ".snapshot"))


def test_transactions_are_known_again_after_a_crash(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    append(log)
    append(log, idempotent(0, transactional=True))
    assert open_partition(tmp_path, clean=False).producers.first_undecided_offset == 1
    marker = EndTransactionMarker(ControlType.COMMIT, 0)
    append(log, memoryview(bytearray(build_marker(marker, NOW, 9, 0))))
    for known in (log, open_partition(tmp_path, clean=False)):
        assert known.producers.first_undecided_offset is None
        assert known.producers.first_unstable_offset == 1


def test_a_damaged_snapshot_is_dropped_and_the_state_read_from_the_batches(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    for sequence in range(40):
        append(log, idempotent(sequence))
    log.close(NOW)
    for name in names(log, ".snapshot"):
        log.disk.replace(f"{FOLDER}/{name}", b"damaged")
    log = open_partition(tmp_path)
    assert log.producers.check(read_header(idempotent(40))) is None
    assert log.producers.check(read_header(idempotent(36))) is not None
    assert names(log, ".snapshot") == []


def test_a_log_that_begins_anew_knows_no_producer_of_before(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    for sequence in range(3):
        append(log, idempotent(sequence))
    log.close(NOW)
    log = open_partition(tmp_path)
    log.truncate_fully_and_start_at(Offset(100), NOW)
    assert log.producers.is_empty
    assert open_partition(tmp_path, clean=False).producers.is_empty


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


def test_aborted_transactions_are_in_the_index_of_their_markers_segment(tmp_path: Path) -> None:
    log = open_partition(tmp_path)

    def index(segment: Segment) -> list[tuple[int, ...]]:
        return [tuple(e) for e in decode_aborted(log.disk.load(segment.path(".txnindex")) or b"")]

    kinds = (ControlType.ABORT, ControlType.ABORT, ControlType.COMMIT, ControlType.ABORT)
    for sequence, kind in enumerate(kinds):
        append(log, idempotent(sequence, transactional=True))
        if sequence == 1:
            log.roll(NOW)  # the second transaction begins before, and ends after
        append(log, memoryview(build_marker(EndTransactionMarker(kind, 0), NOW, 9, 0)))
    expected = [[(9, 0, 1, 2)], [(9, 2, 3, 4), (9, 6, 7, 8)]]
    assert list(map(index, log.segments)) == expected
    # Whatever was there: recovery writes it anew, of the segments that it reads.
    spoiled = log.segments[1].path(".txnindex")
    log.disk.replace(spoiled, b"garbage")
    for recovery_point in (3, 0):
        log = open_partition(tmp_path, clean=False, recovery_point=recovery_point)
        assert list(map(index, log.segments)) == expected
    log.truncate_to(Offset(7), NOW)
    assert list(map(index, log.segments)) == [expected[0], expected[1][:1]]
    log.truncate_to(Offset(3), NOW)
    assert list(map(index, log.segments)) == [expected[0], []]
    assert log.producers.first_undecided_offset == 2


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
