"""One segment: what its indexes hold, when it rolls, what it finds and what it keeps."""

from dataclasses import replace
from pathlib import Path
from struct import iter_unpack

import pytest

from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import RealDisk
from barnabas.log.leader_epochs import LeaderEpochs
from barnabas.log.segment.segment import LOG, OFFSET_INDEX, TIME_INDEX, Segment, TimestampOffset
from barnabas.wire.records.batch import LOG_OVERHEAD, read_header, stamp
from tests.log.batches import CONFIG, NOW, batch_of, content

BASE = 500


@pytest.fixture
def disk(tmp_path: Path) -> RealDisk:
    disk = RealDisk(str(tmp_path))
    disk.make_dir("t-0")
    return disk


def new_segment(disk: RealDisk, config: TopicConfig = CONFIG) -> Segment:
    segment = Segment(disk, "t-0", BASE, config, NOW)
    segment.create()
    return segment


def put(segment: Segment, batch: memoryview) -> bytes:
    stamp(batch, segment.end_offset, len(batch) - LOG_OVERHEAD, 3)
    segment.append(batch, [read_header(batch)])
    return bytes(batch)


def fill(segment: Segment, count: int, *, records: int = 2) -> list[bytes]:
    return [
        put(segment, batch_of(records, timestamp=NOW + number * 100)) for number in range(count)
    ]


def index_of(disk: RealDisk, suffix: str, form: str) -> list[tuple[int, ...]]:
    data = disk.load(f"t-0/{BASE:020}{suffix}")
    assert data is not None
    return list(iter_unpack(form, data))


def test_index_entries_come_when_kafka_adds_them(disk: RealDisk) -> None:
    segment = new_segment(disk)
    size = len(fill(segment, 10)[0])
    segment.rest()
    # The interval (200) is exceeded by what lay before a batch, so every second one or so counts.
    every = 200 // size + 1
    starts = list(range(every, 10, every))
    assert index_of(disk, OFFSET_INDEX, ">ii") == [(n * 2 + 1, n * size) for n in starts]
    times = [(NOW + n * 100 + 1, n * 2 + 1) for n in starts]
    if starts[-1] != 9:
        times.append((NOW + 901, 19))
    assert index_of(disk, TIME_INDEX, ">qi") == times


def test_recovery_builds_the_same_indexes_as_appending_did(disk: RealDisk) -> None:
    segment = new_segment(disk)
    fill(segment, 15)
    segment.rest()
    before = [disk.load(segment.path(suffix)) for suffix in (LOG, OFFSET_INDEX, TIME_INDEX)]
    epochs = LeaderEpochs()
    assert segment.recover(epochs) == 0
    assert [disk.load(segment.path(suffix)) for suffix in (LOG, OFFSET_INDEX, TIME_INDEX)] == before
    assert epochs.entries == ((3, BASE),)


def test_every_place_is_found_by_offset_size_and_end(disk: RealDisk) -> None:
    segment = new_segment(disk)
    batches = fill(segment, 12, records=3)
    size = len(batches[0])
    for offset in range(BASE, BASE + 36):
        number = (offset - BASE) // 3
        for max_bytes in (0, 1, size, size + 1, 4 * size - 1, 100 * size):
            for upto in (offset, offset + 1, BASE + 18, BASE + 36):
                extent = segment.locate(offset, max_bytes, upto, minimum_one=False)
                assert extent is not None
                end = min(number + max_bytes // size, (upto - BASE) // 3)
                assert content(extent) == b"".join(batches[number:end])
    assert segment.locate(BASE + 36, 100, BASE + 36, minimum_one=True) is None


def test_the_first_batch_is_given_also_when_it_is_too_large(disk: RealDisk) -> None:
    segment = new_segment(disk)
    batches = fill(segment, 3)
    extent = segment.locate(BASE + 2, 1, BASE + 6, minimum_one=True)
    assert extent is not None
    assert content(extent) == batches[1]
    extent = segment.locate(BASE + 2, 1, BASE + 2, minimum_one=True)
    assert extent is not None
    assert content(extent) == b""


def test_a_reader_that_goes_on_needs_no_lookup(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = new_segment(disk)
    batches = fill(segment, 10)
    extent = segment.locate(BASE, 3 * len(batches[0]), BASE + 20, minimum_one=True)
    assert extent is not None
    looked_up: list[int] = []
    monkeypatch.setattr(segment.offset_index, "position_for", looked_up.append)
    extent = segment.locate(BASE + 6, 2 * len(batches[0]), BASE + 20, minimum_one=True)
    assert extent is not None
    assert content(extent) == b"".join(batches[3:5])
    extent = segment.locate(BASE + 10, 10_000, BASE + 20, minimum_one=True)
    assert extent is not None
    new = put(segment, batch_of(2))
    extent = segment.locate(BASE + 20, 10_000, BASE + 22, minimum_one=True)
    assert extent is not None
    assert content(extent) == new
    assert looked_up == []


def test_it_rolls_by_size_time_full_index_and_distance(disk: RealDisk) -> None:
    segment = new_segment(disk)
    config = replace(CONFIG, segment_bytes=1000, segment_ms=5000)
    assert not segment.should_roll(2000, BASE, NOW, NOW, config)
    fill(segment, 1)
    size = segment.size
    assert not segment.should_roll(1000 - size, BASE + 9, NOW, NOW, config)
    assert segment.should_roll(1001 - size, BASE + 9, NOW, NOW, config)
    assert not segment.should_roll(1, BASE + 9, NOW + 5001, NOW, config)
    assert segment.should_roll(1, BASE + 9, NOW + 5002, NOW, config)
    assert not segment.should_roll(1, BASE + 2**31 - 1, NOW, NOW, config)
    assert segment.should_roll(1, BASE + 2**31, NOW, NOW, config)


def test_without_timestamps_it_rolls_by_its_own_age(disk: RealDisk) -> None:
    segment = new_segment(disk)
    put(segment, batch_of(1, timestamp=-1))
    config = replace(CONFIG, segment_ms=5000)
    assert not segment.should_roll(1, BASE + 9, -1, NOW + 5000, config)
    assert segment.should_roll(1, BASE + 9, -1, NOW + 5001, config)


def test_it_rolls_when_an_index_is_full(disk: RealDisk) -> None:
    config = replace(CONFIG, segment_index_bytes=36, index_interval_bytes=0)
    segment = new_segment(disk, config)
    fill(segment, 2)
    assert not segment.should_roll(1, BASE + 9, NOW, NOW, config)
    put(segment, batch_of(timestamp=NOW + 999))
    assert segment.should_roll(1, BASE + 9, NOW, NOW, config)
    segment.rest()
    again = Segment(disk, "t-0", BASE, config, NOW)
    assert again.check()
    assert again.should_roll(1, BASE + 9, NOW, NOW, config)


@pytest.mark.parametrize("offset", range(BASE, BASE + 31))
def test_truncation_keeps_all_batches_before_the_offset(disk: RealDisk, offset: int) -> None:
    segment = new_segment(disk)
    batches = fill(segment, 10, records=3)
    segment.truncate_to(offset, NOW)
    kept = (offset - BASE) // 3
    assert disk.load(segment.path(LOG)) == b"".join(batches[:kept])
    assert segment.end_offset == BASE + kept * 3
    assert segment.max_timestamp == (NOW + (kept - 1) * 100 + 2 if kept else -1)
    again = put(segment, batch_of(1))
    extent = segment.locate(BASE + kept * 3, 1000, segment.end_offset, minimum_one=True)
    assert extent is not None
    assert content(extent) == again


def test_a_timestamp_leads_to_the_first_record_at_or_after_it(disk: RealDisk) -> None:
    segment = new_segment(disk)
    # Times go forth and back: 0 100 50 | 200 100 150 | ...
    times = [0, 100, 50, 200, 100, 150, 300, 300, 0]
    for time in times:
        put(segment, batch_of(2, timestamp=NOW + time))
    every = [(NOW + time + n, BASE + 2 * b + n) for b, time in enumerate(times) for n in range(2)]
    for sought in range(NOW - 1, NOW + 303):
        for start in (BASE, BASE + 4, BASE + 7):
            found = segment.find_timestamp(sought, start)
            first = next(((t, o) for t, o in every if t >= sought and o >= start), None)
            assert found == (TimestampOffset(*first, leader_epoch=3) if first else None)


def test_files_are_closed_and_opened_again_at_need(disk: RealDisk) -> None:
    segment = new_segment(disk)
    batches = fill(segment, 5)
    segment.close()
    batches.append(put(segment, batch_of(2)))
    extent = segment.locate(BASE, 10_000, BASE + 12, minimum_one=True)
    assert extent is not None
    assert content(extent) == b"".join(batches)
