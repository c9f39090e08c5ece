"""A log with an open transaction: recovery, truncation, retention and deleted records."""

from pathlib import Path

from barnabas.base.ids import Offset
from barnabas.replication.reading import last_stable_offset
from barnabas.wire.records.records import ControlType
from tests.log.batches import NOW, fill, open_partition
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
