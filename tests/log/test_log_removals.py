"""Removals from a log: by truncation, by deletion of records, by retention."""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.base.errors import BrokerError, DiskFault
from barnabas.base.ids import Offset
from barnabas.log.log import Log
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

DAY_MS = 86_400_000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_partition(tmp_path)


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


def test_a_log_can_be_truncated_fully_and_start_at_another_offset(log: Log) -> None:
    fill(log, 60)
    log.truncate_fully_and_start_at(Offset(1000), NOW).run()
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (1000, 1000, 0)
    assert log.epochs.entries == ()
    assert append(log, epoch=0) == (1000, 1001, -1)
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
    assert append(log) == (100, 101, -1)


def test_what_a_reader_holds_stays_readable_when_its_segment_goes(log: Log) -> None:
    written = fill(log, 100)
    extent = log.locate(Offset(0), 500, log.log_end_offset)
    removal = log.delete_segments(log.segments[:2], NOW)
    assert removal is not None
    removal.run()
    assert content(extent) == b"".join(written[: extent.size // len(written[0])])
