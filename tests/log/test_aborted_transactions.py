"""Aborted transactions among what is read, and the last stable offset."""

from pathlib import Path

from barnabas.base.ids import Offset
from barnabas.log.log import Log
from barnabas.replication.reading import last_stable_offset
from barnabas.wire.records.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
)
from tests.log.batches import NOW, append, open_partition


def write(log: Log, pid: int, sequence: int = 0) -> None:
    record = Record(0, NOW, b"key", b"value", ())
    batch = build_batch(
        [record], producer_id=pid, producer_epoch=0, base_sequence=sequence, transactional=True
    )
    append(log, memoryview(batch))


def end(log: Log, pid: int, kind: ControlType = ControlType.ABORT) -> None:
    append(log, memoryview(build_marker(EndTransactionMarker(kind, 0), NOW, pid, 0)))


def aborted(log: Log, offset: int, upto: int | None = None) -> list[tuple[int, int]]:
    bound = log.log_end_offset if upto is None else Offset(upto)
    extent = log.locate(Offset(offset), 2**20, bound, minimum_one=True)
    found = log.aborted_transactions(offset, bound, extent)
    return [(each.producer_id, each.first_offset) for each in found]


def test_t37_the_list_is_sorted_by_first_offset_not_by_marker(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    for pid in (1, 2, 3):
        write(log, pid)  # at 0, 1, 2
    for pid in (3, 1, 2):
        end(log, pid)
    assert aborted(log, 0) == [(1, 0), (2, 1), (3, 2)]
    assert aborted(log, 4) == [(1, 0), (2, 1)]
    assert aborted(log, 5) == [(2, 1)]


def test_t37_a_marker_in_a_later_segment_counts(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    write(log, 1)
    log.roll(NOW)
    write(log, 2)
    end(log, 2, ControlType.COMMIT)
    log.roll(NOW)
    end(log, 1)
    assert aborted(log, 0) == [(1, 0)]
    assert aborted(log, 3) == [(1, 0)]
    log = open_partition(tmp_path, clean=False)
    assert aborted(log, 0) == [(1, 0)]


def test_t37_transactions_behind_the_bound_are_left_out(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    for pid in (1, 2):
        write(log, pid)
        end(log, pid)
    assert aborted(log, 0, upto=2) == [(1, 0)]
    assert aborted(log, 0) == [(1, 0), (2, 2)]


def test_t40_a_truncated_marker_takes_its_entry_with_it(tmp_path: Path) -> None:
    """The list comes from the log that the records come from."""
    log = open_partition(tmp_path)
    for pid in (1, 2):
        write(log, pid)
        end(log, pid)
    log.truncate_to(Offset(3), NOW)
    assert aborted(log, 0) == [(1, 0)]
    assert log.aborted_upto == 1
    assert log.producers.first_undecided_offset == 2


def test_t36_the_last_stable_offset_is_the_first_that_is_undecided_or_not_replicated(
    tmp_path: Path,
) -> None:
    log = open_partition(tmp_path)
    write(log, 1)
    write(log, 2)
    end(log, 1)
    assert last_stable_offset(log, log.log_end_offset) == 0
    log.producers.on_high_watermark(log.log_end_offset)
    assert last_stable_offset(log, log.log_end_offset) == 1
    end(log, 2)
    assert last_stable_offset(log, Offset(3)) == 1
    log.producers.on_high_watermark(log.log_end_offset)
    assert last_stable_offset(log, log.log_end_offset) == 4


def test_t36_the_last_stable_offset_is_not_before_the_log_start(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    write(log, 1)
    append(log)
    log.delete_records_before(Offset(1))
    assert last_stable_offset(log, log.log_end_offset) == 1
