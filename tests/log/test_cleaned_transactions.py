"""The cleaner and transactions (T43): markers, the transaction index, and how far a pass goes."""

from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.log.cleaner.cleanable import decide_cleanable
from barnabas.log.log import Log
from barnabas.replication.reading import last_stable_offset
from barnabas.wire.records.batch import read_header
from barnabas.wire.records.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
)
from tests.log.batches import NOW, open_partition
from tests.log.compaction import COMPACT, append_pairs, clean, records_of
from tests.log.test_cleaner import aborted_of, headers_of, rolled

COMMIT_KEY = b"\x00\x00\x00\x01"  # the key of every COMMIT marker: version 0, type 1


def write(log: Log, producer_id: int, key: bytes, value: bytes = b"v", sequence: int = 0) -> None:
    batch = build_batch(
        [Record(0, NOW, key, value)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    view = memoryview(batch)
    log.append(view, read_header(view), LeaderEpoch(0), NOW)


def end(log: Log, producer_id: int, kind: ControlType = ControlType.COMMIT) -> None:
    view = memoryview(build_marker(EndTransactionMarker(kind, 0), NOW, producer_id, 0))
    log.append(view, read_header(view), LeaderEpoch(0), NOW)


def markers(log: Log) -> list[int]:
    return [header.producer_id for header in headers_of(log) if header.is_control]


def test_t43_the_index_covers_a_segment_whose_end_was_not_mapped(tmp_path: Path) -> None:
    """A pass whose map is full amid a segment keeps the entries behind (KAFKA-13727)"""
    log = open_partition(tmp_path, replace(COMPACT, segment_bytes=100_000))
    for n in range(0, 200, 20):
        append_pairs(log, [(f"key-{m}", "v") for m in range(n, n + 20)])
    first = log.log_end_offset
    write(log, 7, b"key-1", b"aborted")
    end(log, 7, ControlType.ABORT)
    log.producers.clear()
    rolled(log)
    cleaning = clean(log, memory=24 * 113)
    assert cleaning is not None
    assert cleaning.end_offset < first, "the pass did not reach the transaction"
    assert [each.first_offset for each in aborted_of(log)] == [first]
    while clean(log, memory=24 * 113):
        pass
    assert [each.value for each in records_of(log) if each.key == b"key-1"] == [b"v"]


@pytest.mark.parametrize("later", ["marker", "record"])
def test_t43_a_marker_is_not_removed_by_its_key(tmp_path: Path, later: str) -> None:
    """Every COMMIT marker has the same key; so may have a record (KAFKA-14055)"""
    log = open_partition(tmp_path, COMPACT)
    write(log, 7, b"a")
    end(log, 7)
    if later == "marker":
        write(log, 8, b"b")
        end(log, 8)
    else:
        write(log, 8, COMMIT_KEY)
        end(log, 8)
    log.producers.clear()
    rolled(log)
    clean(log)
    assert markers(log) == [7, 8]
    expected = [b"a", b"b" if later == "marker" else COMMIT_KEY]
    assert [each.key for each in records_of(log) if each.key != b"filler"] == expected


def test_t43_a_record_is_not_removed_by_the_key_of_a_marker(tmp_path: Path) -> None:
    log = open_partition(tmp_path, COMPACT)
    write(log, 7, COMMIT_KEY)
    end(log, 7)
    log.producers.clear()
    rolled(log)
    clean(log)
    assert [each.key for each in records_of(log)] == [COMMIT_KEY, b"filler"]


def test_t43_an_open_transaction_is_not_cleaned_nor_what_is_behind_it(tmp_path: Path) -> None:
    """KAFKA-13194"""
    log = open_partition(tmp_path, COMPACT)
    append_pairs(log, [("a", "1")])
    log.roll(NOW)
    opened = log.log_end_offset
    write(log, 7, b"a", b"2")
    log.roll(NOW)
    append_pairs(log, [("a", "3")])
    rolled(log)
    log.flush(NOW)
    stable = last_stable_offset(log, log.log_end_offset)
    assert decide_cleanable(log, stable, NOW).first_uncleanable_offset == opened
    end(log, 7)
    stable = last_stable_offset(log, log.log_end_offset)
    assert decide_cleanable(log, stable, NOW).first_uncleanable_offset == opened, "not replicated"
    log.producers.on_high_watermark(log.log_end_offset)
    stable = last_stable_offset(log, log.log_end_offset)
    assert decide_cleanable(log, stable, NOW).first_uncleanable_offset > opened


def test_t43_what_is_above_the_high_watermark_is_not_cleaned(tmp_path: Path) -> None:
    """KAFKA-13194"""
    log = open_partition(tmp_path, COMPACT)
    append_pairs(log, [("a", "1")])
    log.roll(NOW)
    committed = log.log_end_offset
    append_pairs(log, [("a", "2")])
    rolled(log)
    log.flush(NOW)
    stable = last_stable_offset(log, Offset(committed))
    assert decide_cleanable(log, stable, NOW).first_uncleanable_offset == committed
