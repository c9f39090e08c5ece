"""Producers and transactions of a log, also after it was opened again or truncated."""

from pathlib import Path

import pytest

from barnabas.base.errors import BrokerError
from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.log.segment.segment import Segment
from barnabas.log.segment.transaction_index import decode_aborted
from barnabas.wire.records.batch import read_header
from barnabas.wire.records.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
)
from tests.log.batches import NOW, append, names, open_partition

FOLDER = "orders-0"


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


def test_a_fully_truncated_log_forgets_its_producers(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    for sequence in range(3):
        append(log, idempotent(sequence))
    log.close(NOW)
    log = open_partition(tmp_path)
    log.truncate_fully_and_start_at(Offset(100), NOW)
    assert log.producers.is_empty
    assert open_partition(tmp_path, clean=False).producers.is_empty


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
    # Whatever was there: recovery writes it again, from the segments that it reads.
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


def test_a_marker_without_a_producer_ends_nothing(tmp_path: Path) -> None:
    """The log knows as little of it as after it is opened again."""
    log = open_partition(tmp_path)
    marker = EndTransactionMarker(ControlType.COMMIT, 3)
    batch = memoryview(build_marker(marker, NOW, -1, 0))
    log.append_marker(batch, read_header(batch), marker, LeaderEpoch(0), NOW)
    assert log.log_end_offset == 1
    assert not log.producers.producers
