"""Opening a partition after clean stops, crashes at any byte, damage and interrupted compaction."""

import gc
import random
import uuid
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError, ConfigError
from barnabas.base.ids import Offset
from barnabas.disk.disk import RealDisk
from barnabas.log.log import Log
from barnabas.log.recovery.log_loader import CorruptMetadata, read_topic_id, write_topic_id
from barnabas.wire.records.batch import read_header
from tests.log.batches import (
    CONFIG,
    NOW,
    append,
    batch_of,
    batch_with_repeated_offset,
    content,
    fill,
    open_partition,
    read_all,
)

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


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_segment_that_lost_its_end_removes_the_later_ones(tmp_path: Path, is_torn: bool) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 120)
    second, third, *_ = log.segments[1:]
    path = tmp_path / FOLDER / f"{second.base_offset:020}.log"
    path.write_bytes(path.read_bytes()[: -len(written[0]) + is_torn])
    for _ in range(2):
        log = open_partition(tmp_path, clean=False)
        assert log.log_end_offset == third.base_offset - 1
        assert read_all(log) == written[: third.base_offset - 1]


@pytest.mark.parametrize(
    ("recovery_point", "first_dirty_offset", "has_gaps", "is_right"),
    [
        (None, None, True, True),
        (None, None, False, False),
        (0, None, True, False),
        (1, None, True, False),
        (1, 120, False, True),
        (1, 0, True, False),
    ],
)
def test_gaps_between_segments_are_right_where_a_log_may_have_been_compacted(
    tmp_path: Path,
    recovery_point: int | None,
    first_dirty_offset: int | None,
    has_gaps: bool,
    is_right: bool,
) -> None:
    log = open_partition(tmp_path)
    size = len(fill(log, 120)[0])
    third = log.segments[2]
    path = tmp_path / FOLDER / f"{log.segments[1].base_offset:020}.log"
    path.write_bytes(path.read_bytes()[size if has_gaps else 0 : -size])
    log = open_partition(
        tmp_path,
        replace(CONFIG, cleanup_policy=("compact",)),
        clean=False,
        recovery_point=recovery_point,
        first_dirty_offset=first_dirty_offset,
    )
    assert log.log_end_offset == (120 if is_right else third.base_offset - 1)


@pytest.mark.parametrize("first_dirty_offset", [None, 2])
def test_what_a_follower_got_of_a_compacted_log_outlasts_a_kill(
    tmp_path: Path, first_dirty_offset: int | None
) -> None:
    config = replace(CONFIG, cleanup_policy=("compact",), segment_bytes=300)
    leader = open_partition(tmp_path / "leader")
    follower = open_partition(tmp_path / "follower", config)
    kept = fill(leader, 40)[::4]
    for batch in kept:
        follower.append_as_follower(batch, NOW)
    assert len(follower.segments) > 3
    follower = open_partition(
        tmp_path / "follower",
        config,
        clean=False,
        recovery_point=follower.segments[1].base_offset,
        first_dirty_offset=first_dirty_offset,
    )
    assert read_all(follower) == kept


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
def test_a_missing_or_invalid_index_is_rebuilt(
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


def test_a_log_that_ends_before_its_start_is_emptied_and_starts_there(tmp_path: Path) -> None:
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
    disk.make_dir("t-0")
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
    descriptors = Path("/dev/fd")
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


def spoil(path: Path, at: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)


@pytest.mark.parametrize("length", [-12, -100, -5, 0, 48, 2**30])
@pytest.mark.parametrize("back", [1, 2])
def test_a_senseless_length_at_the_end_of_a_log_that_was_closed_is_cut(
    tmp_path: Path, length: int, back: int
) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 20)
    log.close(NOW)
    path = tmp_path / FOLDER / f"{0:020}.log"
    spoil(path, len(written[0]) * (20 - back) + 8, pack(">i", length))
    log = open_partition(tmp_path)
    assert log.log_end_offset == 20 - back
    append(log)
    assert read_all(log)[:-1] == written[:-back]
    assert len(read_all(log)) == 21 - back


def test_a_log_that_was_closed_and_lost_its_last_bytes_goes_on_where_it_is_whole(
    tmp_path: Path,
) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 20)
    log.close(NOW)
    path = tmp_path / FOLDER / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-3])
    log = open_partition(tmp_path)
    append(log)
    assert read_all(log)[:-1] == written[:-1]


@pytest.mark.parametrize("length", [-12, -100, 0, 2**30])
def test_readers_get_an_error_for_an_invalid_length_in_flushed_records(
    tmp_path: Path, length: int
) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 60)
    log.close(NOW)
    spoil(tmp_path / FOLDER / f"{0:020}.log", len(written[0]) * 8 + 8, pack(">i", length))
    log = open_partition(tmp_path)
    assert log.log_end_offset == 60
    for offset, max_bytes in ((8, 5000), (9, 5000), (8, 150), (6, 500)):
        with suppress(BrokerError):
            content(log.locate(Offset(offset), max_bytes, log.log_end_offset))


def test_lost_leader_epochs_cost_no_record_though_a_batch_is_damaged(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    written = fill(log, 100)
    append(log, batch_of(), epoch=3)
    log.close(NOW)
    (tmp_path / FOLDER / "leader-epoch-checkpoint").unlink()
    spoil(tmp_path / FOLDER / f"{0:020}.log", 200, b"damage")
    for clean in (True, False):
        log = open_partition(tmp_path, clean=clean, recovery_point=101)
        assert log.log_end_offset == 101
        assert read_all(log, 10)[:-1] == written[10:]
        assert log.epochs.entries == ((0, 0), (3, 100))


def test_a_crash_amid_recovery_leaves_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(Exception):
        pass

    remove, left = RealDisk.remove, 0

    def remove_or_crash(disk: RealDisk, path: str, /) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Crash
        remove(disk, path)

    fill(open_partition(tmp_path), 150)
    spoil(tmp_path / FOLDER / f"{0:020}.log", 200, b"damage")
    monkeypatch.setattr(RealDisk, "remove", remove_or_crash)
    for crash_after in range(100):
        left = crash_after
        with suppress(Crash):
            assert open_partition(tmp_path, clean=False).log_end_offset == 1
            break
    else:
        pytest.fail("recovery never came to its end")
    assert crash_after >= 3


def test_messages_of_the_old_format_are_refused_and_not_cut(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 1)
    rest = pack(">bbq", 1, 0, NOW) + pack(">i3si5s", 3, b"key", 5, b"value")
    old = pack(">qiI", 0, 4 + len(rest), zlib.crc32(rest)) + rest
    path = tmp_path / FOLDER / f"{0:020}.log"
    path.write_bytes(old * 3)
    with pytest.raises(ConfigError, match=r"00\.log holds messages of format 1, older than"):
        open_partition(tmp_path, clean=False)
    assert path.read_bytes() == old * 3


def test_segments_that_are_found_get_a_jitter_of_their_own(tmp_path: Path) -> None:
    config = replace(CONFIG, segment_jitter_ms=1_000_000)
    log = open_partition(tmp_path, config)
    fill(log, 60)
    log.close(NOW)
    found = {segment.jitter_ms for segment in open_partition(tmp_path, config).segments}
    assert len(found) > 1


@pytest.mark.parametrize(("stored", "taken"), [(None, None), (2, 2), (3, 3), (4, None)])
def test_what_was_cleaned_beyond_the_end_of_the_log_does_not_count(
    tmp_path: Path, stored: int | None, taken: int | None
) -> None:
    log = open_partition(tmp_path)
    fill(log, 3)
    log.close(NOW)
    assert open_partition(tmp_path, first_dirty_offset=stored).first_dirty_offset == taken


def test_recovery_keeps_what_an_earlier_broker_acknowledged(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    append(log, batch_with_repeated_offset())
    append(log)
    log.close(NOW)
    recovered = open_partition(tmp_path, clean=False, recovery_point=0)
    assert recovered.log_end_offset == 3
    recovered.close(NOW)
