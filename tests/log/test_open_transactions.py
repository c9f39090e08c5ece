"""A log with an open transaction: recovery, truncation, retention and deleted records."""

from dataclasses import replace
from pathlib import Path

from barnabas.base.ids import Offset
from barnabas.replication.reading import last_stable_offset
from barnabas.wire.records.records import ControlType
from tests.log.batches import CONFIG, NOW, fill, open_partition
from tests.log.test_aborted_transactions import aborted, end, write


def test_an_open_transaction_is_open_after_a_crash_and_can_be_ended(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 2)
    opened = log.log_end_offset
    write(log, 7)
    log.roll(NOW)
    fill(log, 2)
    log.flush(NOW)
    again = open_partition(tmp_path, clean=False)
    assert again.producers.first_undecided_offset == opened
    assert last_stable_offset(again, again.log_end_offset) == opened
    end(again, 7)
    again.producers.on_high_watermark(again.log_end_offset)
    assert last_stable_offset(again, again.log_end_offset) == again.log_end_offset
    assert aborted(again, 0) == [(7, opened)]


def test_truncation_of_a_marker_opens_its_transaction_again(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    write(log, 7)
    before = log.log_end_offset
    end(log, 7, ControlType.COMMIT)
    log.truncate_to(before, NOW)
    assert log.producers.first_undecided_offset == 0
    end(log, 7)
    assert aborted(log, 0) == [(7, 0)]


def test_truncation_of_a_whole_transaction_leaves_nothing_open(tmp_path: Path) -> None:
    """As after an unclean election: nobody waits for a marker of what is gone."""
    log = open_partition(tmp_path)
    fill(log, 3)
    before = log.log_end_offset
    write(log, 7)
    log.truncate_to(before, NOW)
    assert log.producers.first_undecided_offset is None
    assert last_stable_offset(log, before) == before
    end(log, 7)
    assert aborted(log, 0) == []
    log.producers.on_high_watermark(log.log_end_offset)
    assert last_stable_offset(log, log.log_end_offset) == log.log_end_offset


def test_a_transaction_whose_records_were_deleted_can_be_ended(tmp_path: Path) -> None:
    """By retention or DeleteRecords; the last stable offset is not before the log start."""
    log = open_partition(tmp_path)
    write(log, 7)
    log.roll(NOW)
    fill(log, 5)
    start = Offset(3)
    log.delete_records_before(start)
    assert last_stable_offset(log, log.log_end_offset) == start
    end(log, 7)
    log.producers.on_high_watermark(log.log_end_offset)
    assert last_stable_offset(log, log.log_end_offset) == log.log_end_offset
    assert all(first >= 0 for _, first in aborted(log, start))


def test_retention_by_time_takes_the_records_of_an_open_transaction(tmp_path: Path) -> None:
    """As in Kafka; readers of committed records wait at the log start, then go on."""
    log = open_partition(tmp_path, replace(CONFIG, retention_ms=1000))
    write(log, 7)
    fill(log, 3)
    log.roll(NOW)
    fill(log, 2)
    later = NOW + 10_000
    assert log.deletable_segments(later, Offset(0)) == [], "the high watermark is below"
    kept = Offset(log.log_end_offset - 2)
    deletable = log.deletable_segments(later, kept)
    assert [each.end_offset for each in deletable] == [kept]
    log.delete_segments(deletable, later)
    assert log.log_start_offset == kept
    assert last_stable_offset(log, log.log_end_offset) == kept
    assert log.producers.has_ongoing(7, 0)
    end(log, 7)
    log.producers.on_high_watermark(log.log_end_offset)
    assert last_stable_offset(log, log.log_end_offset) == log.log_end_offset
    assert log.producers.first_undecided_offset is None


def test_a_transaction_whose_records_retention_took_can_be_ended_after_a_restart(
    tmp_path: Path,
) -> None:
    """Neither a snapshot nor the absence of one leaves it open for good."""
    for folder, has_snapshot in ((tmp_path / "with", True), (tmp_path / "without", False)):
        folder.mkdir()
        log = open_partition(folder)
        write(log, 7)
        log.roll(NOW)
        fill(log, 2)
        log.delete_segments(log.segments[:1], NOW)
        log.close(NOW)
        if not has_snapshot:
            for each in folder.rglob("*.snapshot"):
                each.unlink()
        again = open_partition(folder, clean=has_snapshot)
        assert again.producers.has_ongoing(7, 0) is has_snapshot
        assert last_stable_offset(again, again.log_end_offset) >= again.log_start_offset
        end(again, 7)
        again.producers.on_high_watermark(again.log_end_offset)
        assert last_stable_offset(again, again.log_end_offset) == again.log_end_offset
