"""The batches that one or more passes of compaction leave of a log."""

from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import LeaderEpoch
from barnabas.log.log import Log
from barnabas.log.segment.segment import TRANSACTION_INDEX
from barnabas.log.segment.transaction_index import (
    AbortedTransaction,
    decode_aborted,
    encode_aborted,
)
from barnabas.wire.records.batch import BatchHeader, read_header
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
)
from tests.log.batches import NOW, open_partition, read_all, read_batches
from tests.log.compaction import COMPACT, append_pairs, clean, pairs_of, records_of

RETENTION = COMPACT.delete_retention_ms
PRODUCER = 9


def rolled(log: Log) -> None:
    """Let all so far be cleanable."""
    log.roll(NOW)
    append_pairs(log, [("filler", "x")])


def headers_of(log: Log) -> list[BatchHeader]:
    return [header for header, _ in read_batches(log)]


def test_only_the_latest_value_of_each_key_is_left_at_its_offset(tmp_path: Path) -> None:
    log = open_partition(tmp_path, COMPACT)
    append_pairs(log, [("a", "1"), ("b", "1"), ("a", "2")])
    append_pairs(log, [("c", "1"), ("b", "2")])
    rolled(log)
    assert clean(log)
    assert pairs_of(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "filler", "x")]
    first, second, _ = headers_of(log)
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 2, 1)
    assert (second.base_offset, second.last_offset, second.record_count) == (3, 4, 2)


@pytest.mark.parametrize("codec", Codec)
def test_batches_keep_their_codec_and_untouched_ones_every_byte(
    tmp_path: Path, codec: Codec
) -> None:
    log = open_partition(tmp_path, COMPACT)
    append_pairs(log, [("a", "1"), ("b", "1")], codec=codec)
    append_pairs(log, [("c", "1"), ("d", "1")], codec=codec)
    append_pairs(log, [("a", "2")], codec=codec)
    rolled(log)
    before = read_all(log)
    clean(log)
    after = read_all(log)
    assert after[1:] == before[1:]
    assert after[0] != before[0]
    assert {header.codec for header in headers_of(log)[:-1]} == {codec}


def test_a_tombstone_stays_for_its_time_after_the_first_pass_and_then_goes(
    tmp_path: Path,
) -> None:
    log = open_partition(tmp_path, COMPACT)
    append_pairs(log, [("a", "1")])
    append_pairs(log, [("a", None)], timestamp=NOW - 10 * RETENTION)
    rolled(log)
    clean(log, NOW)
    assert pairs_of(log)[0] == (1, "a", None)
    assert headers_of(log)[0].has_delete_horizon
    assert headers_of(log)[0].base_timestamp == NOW + RETENTION
    assert records_of(log)[0].timestamp == NOW - 10 * RETENTION
    rolled(log)
    clean(log, NOW + RETENTION - 1)
    assert pairs_of(log)[0] == (1, "a", None)
    assert headers_of(log)[0].base_timestamp == NOW + RETENTION, "the first pass set it for good"
    rolled(log)
    clean(log, NOW + RETENTION)
    assert "a" not in [key for _, key, _ in pairs_of(log)]


def test_a_record_without_a_key_does_not_stay(tmp_path: Path) -> None:
    log = open_partition(tmp_path, COMPACT)
    batch = memoryview(build_batch([Record(0, NOW, None, b"1"), Record(1, NOW, b"k", b"1")]))
    log.append(batch, read_header(batch), LeaderEpoch(0), NOW)
    rolled(log)
    cleaning = clean(log)
    assert cleaning
    assert cleaning.statistics.records.records_without_key == 1
    assert pairs_of(log)[0] == (1, "k", "1")


def test_ten_times_as_many_keys_as_the_map_holds_are_cleaned_in_several_passes(
    tmp_path: Path,
) -> None:
    log = open_partition(tmp_path, replace(COMPACT, segment_bytes=4000))
    for number in range(2):
        for n in range(0, 1000, 20):
            append_pairs(log, [(f"key-{m}", str(number)) for m in range(n, n + 20)])
    rolled(log)
    memory = 24 * 113
    passes, reached = 0, [0]
    while cleaning := clean(log, memory=memory):
        assert len(cleaning._map) <= 101
        assert cleaning.end_offset > reached[-1]
        reached.append(cleaning.end_offset)
        passes += 1
    assert passes >= 19
    latest = {key: value for _, key, value in pairs_of(log)}
    assert len(pairs_of(log)) == len(latest) == 1001
    assert set(latest.values()) == {"1", "x"}


def test_small_segments_are_joined_as_far_as_they_fit(tmp_path: Path) -> None:
    log = open_partition(tmp_path, COMPACT)
    for n in range(60):
        append_pairs(log, [(f"key-{n % 3}", "value" * 10)])
    before = len(log.segments)
    clean(log)
    rolled(log)
    clean(log)
    assert len(log.segments) < before / 3
    assert all(segment.size <= COMPACT.segment_bytes for segment in log.segments)


@pytest.mark.parametrize("where", [20, 70])
def test_a_damaged_batch_ends_the_pass_and_leaves_the_log_alone(tmp_path: Path, where: int) -> None:
    log = open_partition(tmp_path, COMPACT)
    append_pairs(log, [("a", "1"), ("a", "2")])
    rolled(log)
    log.flush(NOW)
    path = tmp_path / log.segments[0].path(".log")
    data = bytearray(path.read_bytes())
    data[where] ^= 1
    path.write_bytes(data)
    with pytest.raises(BrokerError) as error:
        clean(log)
    assert error.value.code is ErrorCode.corrupt_message
    assert "at byte 0" in str(error.value)
    assert log.cleaning
    log.cleaning.discard()
    assert path.read_bytes() == data
    assert not list(tmp_path.glob("*/*.cleaned"))


# -- producers and transactions ----------------------------------------------


def append_produced(log: Log, pairs: dict[str, str], sequence: int, *, transactional: bool) -> int:
    records = [Record(n, NOW, k.encode(), v.encode()) for n, (k, v) in enumerate(pairs.items())]
    batch = build_batch(
        records,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=transactional,
    )
    view = memoryview(batch)
    return log.append(view, read_header(view), LeaderEpoch(0), NOW).base_offset


def end_transaction(log: Log, control_type: ControlType) -> None:
    view = memoryview(build_marker(EndTransactionMarker(control_type, 0), NOW, PRODUCER, 0))
    log.append(view, read_header(view), LeaderEpoch(0), NOW)


def good_of(log: Log) -> list[tuple[str, str | None]]:
    return [(key, value) for _, key, value in pairs_of(log) if key != "filler"]


def aborted_of(log: Log) -> list[AbortedTransaction]:
    paths = [segment.path(TRANSACTION_INDEX) for segment in log.segments]
    return [entry for path in paths for entry in decode_aborted(log.disk.load(path) or b"")]


def test_a_live_producers_last_batch_stays_as_an_empty_header_until_the_producer_is_forgotten(
    tmp_path: Path,
) -> None:
    log = open_partition(tmp_path, COMPACT)
    append_produced(log, {"a": "1", "b": "1"}, 0, transactional=False)
    append_produced(log, {"a": "2"}, 2, transactional=False)
    append_pairs(log, [("a", "3"), ("b", "3")])
    rolled(log)
    clean(log)
    first = headers_of(log)[0]
    assert (first.base_offset, first.record_count, first.size) == (2, 0, 61)
    assert (first.producer_id, first.last_sequence) == (PRODUCER, 2)
    reopened = open_partition(tmp_path, COMPACT, clean=False)
    assert reopened.producers.producers[PRODUCER].next_sequence == 3
    log.producers.clear()
    rolled(log)
    clean(log)
    assert all(header.producer_id < 0 for header in headers_of(log))


def test_a_commit_marker_goes_only_after_the_last_record_and_its_time(tmp_path: Path) -> None:
    log = open_partition(tmp_path, COMPACT)
    append_produced(log, {"a": "1"}, 0, transactional=True)
    end_transaction(log, ControlType.COMMIT)
    log.producers.clear()
    rolled(log)
    clean(log, NOW)
    markers = [header for header in headers_of(log) if header.is_control]
    assert [header.has_delete_horizon for header in markers] == [False]
    append_pairs(log, [("a", "2")])
    rolled(log)
    later = NOW + 10 * RETENTION
    clean(log, later)  # the record goes
    rolled(log)
    clean(log, later)  # so the marker's time begins
    markers = [header for header in headers_of(log) if header.is_control]
    assert [header.base_timestamp for header in markers] == [later + RETENTION]
    rolled(log)
    clean(log, later + RETENTION - 1)
    assert any(header.is_control for header in headers_of(log))
    rolled(log)
    clean(log, later + RETENTION)
    assert not any(header.is_control for header in headers_of(log))
    assert {key: value for _, key, value in pairs_of(log)} == {"a": "2", "filler": "x"}


def test_aborted_records_go_at_once_and_hide_nothing(tmp_path: Path) -> None:
    log = open_partition(tmp_path, COMPACT)
    append_pairs(log, [("a", "good")])
    first = append_produced(log, {"a": "bad"}, 0, transactional=True)
    rolled(log)
    end_transaction(log, ControlType.ABORT)
    log.producers.clear()
    append_produced(log, {"b": "good"}, 1, transactional=True)
    end_transaction(log, ControlType.COMMIT)
    log.producers.clear()
    rolled(log)
    clean(log, NOW)
    assert good_of(log) == [("a", "good"), ("b", "good")]
    # The index knows of it as long as a batch of it was met; then the marker's time begins.
    assert [entry.first_offset for entry in aborted_of(log)] == [first]
    rolled(log)
    clean(log, NOW)
    assert not aborted_of(log)
    assert [h.has_delete_horizon for h in headers_of(log) if h.is_control] == [True, False]
    rolled(log)
    clean(log, NOW + RETENTION)
    assert [h.has_delete_horizon for h in headers_of(log) if h.is_control] == [False]
    assert good_of(log) == [("a", "good"), ("b", "good")]


def test_a_transaction_index_survives_its_encoding_and_a_cut() -> None:
    entries = [AbortedTransaction(1, 5, 9, 10), AbortedTransaction(2**40, 7, 12, 13)]
    data = encode_aborted(entries)
    assert len(data) == 68
    assert decode_aborted(data) == entries
    assert decode_aborted(data[:-1]) == entries[:1]
    with pytest.raises(BrokerError):
        decode_aborted(b"\x00\x01" + data[2:])
