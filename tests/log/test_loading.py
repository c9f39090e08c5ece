"""Opening a partition after clean stops, crashes at any byte, damage and interrupted compaction."""

import gc
import random
import uuid
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.base.disk import RealDisk
from barnabas.base.ids import Offset
from barnabas.log.loading import CorruptMetadata, read_topic_id, write_topic_id
from barnabas.log.log import Log
from barnabas.wire.batch import read_header
from tests.log.batches import CONFIG, NOW, append, batch_of, fill, open_partition, read_all

FOLDER = "orders-0"


def files(tmp_path: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((tmp_path / FOLDER).iterdir())}


def check_indexes(log: Log) -> None:
    """Every entry names a batch that begins there and ends at its offset."""
    for segment in log.segments:
        ends = {position: header.last_offset for position, header in segment.headers()}
        for number in range(segment.offset_index.entries):
            relative, position = segment.offset_index.entry(number)
            assert ends[position] == segment.base_offset + relative


def test_a_clean_stop_and_start_changes_nothing(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 60, count=2)
    append(log, batch_of(), epoch=4)
    log.close(NOW)
    left = files(tmp_path)
    for _ in range(2):
        log = open_partition(tmp_path)
        assert read_all(log)[:-1] == written
        assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 121, 121)
        assert log.epochs.entries == ((0, 0), (4, 120))
        check_indexes(log)
        log.close(NOW)
        assert files(tmp_path) == left


def test_a_start_after_a_crash_finds_everything_and_leaves_the_same_files(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 60, count=2)
    # No close: the indexes of the active segment are still long, as after kill -9.
    recovered = open_partition(tmp_path, clean=False)
    assert read_all(recovered) == written
    assert recovered.recovery_point == 0
    check_indexes(recovered)
    recovered.close(NOW)
    after_crash = files(tmp_path)
    log.close(NOW)
    assert files(tmp_path) == after_crash


def test_after_a_crash_the_log_can_be_written_on(tmp_path: Path) -> None:
    written = fill(open_partition(tmp_path), 10)
    log = open_partition(tmp_path, clean=False)
    written += fill(log, 30)
    assert read_all(log) == written
    check_indexes(log)


def test_a_cut_at_any_byte_keeps_exactly_the_whole_batches_before_it(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 4)
    path = tmp_path / FOLDER / f"{0:020}.log"
    whole = path.read_bytes()
    for length in range(len(whole), -1, -1):
        path.write_bytes(whole[:length])
        log = open_partition(tmp_path, clean=False)
        kept = length // len(written[0])
        assert read_all(log) == written[:kept]
        assert log.log_end_offset == kept
        assert path.stat().st_size == kept * len(written[0])


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damage_anywhere_keeps_the_batches_before_it_and_serves_none_after(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("damage")
    dice = random.Random(seed)
    log = open_partition(tmp_path)
    written = fill(log, dice.randrange(1, 80), count=dice.randrange(1, 4))
    victim = dice.choice(log.segments)
    path = tmp_path / FOLDER / f"{victim.base_offset:020}.log"
    data = bytearray(path.read_bytes())
    at = dice.randrange(len(data))
    data[at] ^= 1 << dice.randrange(8)
    path.write_bytes(data)
    harmed = sum(segment.size for segment in log.segments[: log.segments.index(victim)]) + at
    size = len(written[0])
    log = open_partition(tmp_path, clean=False)
    kept = read_all(log)
    before = harmed // size
    assert kept[:before] == written[:before]
    if harmed % size in (*range(8), *range(12, 16)):
        # Base offset and leader epoch lie outside the CRC. What follows them contradicts them,
        # unless the harm is small or there is nothing.
        assert before <= len(kept) <= len(written)
    else:
        assert len(kept) == before
    assert log.size_bytes == sum(map(len, kept))
    check_indexes(log)
    append(log, epoch=log.epochs.latest + 1)
    assert read_all(log)[: len(kept)] == kept


def test_segments_below_the_recovery_point_are_not_scanned(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 60)
    log.flush(NOW)
    second = log.segments[1]
    path = tmp_path / FOLDER / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    log = open_partition(tmp_path, clean=False, recovery_point=second.base_offset)
    assert log.log_end_offset == 60
    assert log.recovery_point == second.base_offset
    log = open_partition(tmp_path, clean=False, recovery_point=second.base_offset - 1)
    assert len(log.segments) == 1
    assert log.log_end_offset == second.base_offset - 1


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", [None, b"odd", bytes(24), pack(">qi", -5, -5) * 2])
def test_a_missing_or_senseless_index_is_built_anew(
    tmp_path: Path, suffix: str, damage: bytes | None
) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 60)
    log.close(NOW)
    left = files(tmp_path)
    for segment in log.segments:
        path = tmp_path / FOLDER / f"{segment.base_offset:020}{suffix}"
        path.unlink() if damage is None else path.write_bytes(damage)
    log = open_partition(tmp_path)
    assert read_all(log) == written
    check_indexes(log)
    log.close(NOW)
    assert files(tmp_path) == left


@pytest.mark.parametrize("damage", [None, b"", b"nonsense", b"0\n5\n0 0\n"])
def test_lost_leader_epochs_are_read_from_the_batches(tmp_path: Path, damage: bytes | None) -> None:
    log = open_partition(tmp_path)
    fill(log, 30)
    append(log, batch_of(), epoch=2)
    append(log, batch_of(), epoch=7)
    log.close(NOW)
    path = tmp_path / FOLDER / "leader-epoch-checkpoint"
    path.unlink() if damage is None else path.write_bytes(damage)
    log = open_partition(tmp_path)
    assert log.epochs.entries == ((0, 0), (2, 30), (7, 31))
    assert path.read_bytes() == b"0\n3\n0 0\n2 30\n7 31\n"


def test_leader_epochs_beyond_a_torn_tail_are_forgotten(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 3)
    append(log, batch_of(), epoch=2)
    path = tmp_path / FOLDER / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    log = open_partition(tmp_path, clean=False)
    assert list(log.epochs.entries) == [(0, 0)]
    append(log, batch_of(), epoch=1)
    assert list(log.epochs.entries) == [(0, 0), (1, 3)]


def test_a_log_that_ends_before_its_start_begins_anew_there(tmp_path: Path) -> None:
    fill(open_partition(tmp_path), 5)
    log = open_partition(tmp_path, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert append(log).base_offset == 100
    assert [name for name in files(tmp_path) if name.endswith(".log")] == [f"{100:020}.log"]


def test_files_marked_deleted_or_half_compacted_and_orphans_are_removed(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 5)
    log.close(NOW)
    left = files(tmp_path)
    for name in (
        f"{77:020}.log.deleted",
        f"{77:020}.index.deleted",
        f"{0:020}.log.cleaned",
        f"{3:020}.log.swap",  # beyond a .cleaned one: of the same unfinished work
        f"{3:020}.index.swap",
        f"{88:020}.index",
        f"{88:020}.timeindex",
        f"{88:020}.txnindex",
        "leader-epoch-checkpoint.tmp",
    ):
        (tmp_path / FOLDER / name).write_bytes(b"left over")
    log = open_partition(tmp_path)
    assert read_all(log) == written
    log.close(NOW)
    assert files(tmp_path) == left


def test_a_finished_compaction_is_swapped_in(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 70)
    _, second, third = log.segments[:3]
    log.close(NOW)
    folder = tmp_path / FOLDER
    # Compaction kept one batch of each of the first two segments, in one segment.
    kept = [written[3], written[second.base_offset + 3]]
    (folder / f"{0:020}.log.swap").write_bytes(b"".join(kept))
    (folder / f"{0:020}.index.swap").write_bytes(b"")
    (folder / f"{0:020}.timeindex.swap").write_bytes(pack(">qi", NOW, 3))
    log = open_partition(tmp_path)
    assert [segment.base_offset for segment in log.segments[:2]] == [0, third.base_offset]
    assert read_all(log) == [*kept, *written[third.base_offset :]]
    assert not [name for name in files(tmp_path) if name.endswith(".swap")]


def test_producer_snapshots_without_a_segment_go_but_the_newest_stays(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 60)
    log.close(NOW)
    left = files(tmp_path)
    (tmp_path / FOLDER / f"{1:020}.snapshot").write_bytes(b"stray")
    open_partition(tmp_path).close(NOW)
    assert files(tmp_path) == left


def test_a_topic_id_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    disk.make_folder("t-0")
    assert read_topic_id(disk, "t-0") is None
    topic_id = uuid.UUID("12345678-1234-4234-8234-123456789abc")
    write_topic_id(disk, "t-0", topic_id)
    assert disk.load("t-0/partition.metadata") == b"version: 0\ntopic_id: EjRWeBI0QjSCNBI0VniavA"
    assert read_topic_id(disk, "t-0") == topic_id
    disk.replace("t-0/partition.metadata", b"version: 0\ntopic_id: short")
    with pytest.raises(CorruptMetadata, match=r"t-0/partition\.metadata"):
        read_topic_id(disk, "t-0")


def test_opening_holds_no_descriptors(tmp_path: Path) -> None:
    fill(open_partition(tmp_path), 60)
    gc.collect()  # what other tests left must not be counted
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    log = open_partition(tmp_path, CONFIG, clean=False)
    assert len(log.segments) > 1
    assert len(list(descriptors.iterdir())) == before


def test_the_header_of_every_recovered_batch_is_what_the_leader_stamped(tmp_path: Path) -> None:
    fill(open_partition(tmp_path), 10, count=3)
    log = open_partition(tmp_path, clean=False)
    found = [read_header(batch) for batch in read_all(log)]
    assert [header.base_offset for header in found] == list(range(0, 30, 3))
    assert {header.leader_epoch for header in found} == {0}


def test_epochs_are_known_after_a_crash_took_the_log_start_and_all_that_lay_beyond_it(
    tmp_path: Path,
) -> None:
    log = open_partition(tmp_path)
    fill(log, 3)
    append(log, epoch=7)
    log.delete_records_before(Offset(4))
    log.segments[0].file.truncate(log.segments[0].size // 2)
    again = open_partition(tmp_path, clean=False)
    assert again.log_end_offset < 3
    assert again.epochs.entries == ((0, 0),)
