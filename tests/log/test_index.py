"""The sparse indexes of a segment."""

from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import DiskFault
from barnabas.disk.disk import RealDisk
from barnabas.log.segment.index import OffsetIndex, TimeIndex

BASE = 1000


@pytest.fixture
def disk(tmp_path: Path) -> RealDisk:
    return RealDisk(str(tmp_path))


def offset_index(disk: RealDisk, entries: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex(disk, "i.index", BASE, 8 * 1000)
    index.preallocate()
    for offset, position in entries:
        index.add_offset(offset, position)
    return index


def test_entries_lie_in_the_file_as_kafka_puts_them(disk: RealDisk) -> None:
    offset_index(disk, [(1005, 4200), (1011, 9000)]).trim()
    assert disk.load("i.index") == pack(">iiii", 5, 4200, 11, 9000)
    index = TimeIndex(disk, "i.timeindex", BASE, 1200)
    index.preallocate()
    index.add_time(77_000_000_000, 1003)
    index.trim()
    assert disk.load("i.timeindex") == pack(">qi", 77_000_000_000, 3)


def test_an_active_index_has_its_full_length_and_zeros_behind(disk: RealDisk) -> None:
    index = OffsetIndex(disk, "i.index", BASE, 1027)
    index.preallocate()
    index.add_offset(1001, 1)
    data = disk.load("i.index")
    assert data == pack(">ii", 1, 1) + bytes(1024 - 8)


def test_an_index_that_is_created_again_holds_no_old_entries(disk: RealDisk) -> None:
    offset_index(disk, [(1005, 100), (1010, 200)]).trim()
    index = OffsetIndex(disk, "i.index", BASE, 80)
    assert index.entries == 2
    index.preallocate()
    assert (index.entries, disk.load("i.index")) == (0, bytes(80))


rising = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=60)


@given(steps=rising, target=st.integers(0, 4000), position=st.integers(0, 400_000))
def test_lookups_find_the_last_entry_that_is_not_beyond(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int]],
    target: int,
    position: int,
) -> None:
    disk = RealDisk(str(tmp_path_factory.mktemp("index")))
    entries, at = [], (BASE, 0)
    for offsets, size in steps:
        at = (at[0] + offsets, at[1] + size)
        entries.append(at)
    index = offset_index(disk, entries)
    for reader in (index, _reopened(disk, index)):
        offset = BASE + target
        assert reader.position_for(offset) == max((p for o, p in entries if o <= offset), default=0)
        for sought in (position, position // 2, position):
            expected = max((p for _, p in entries if p <= sought), default=0)
            assert reader.position_upto(sought) == expected


def _reopened(disk: RealDisk, index: OffsetIndex) -> OffsetIndex:
    index.trim()
    return OffsetIndex(disk, "i.index", BASE, 8 * 1000)


def test_a_truncated_index_forgets_what_is_at_or_beyond_and_can_grow_again(disk: RealDisk) -> None:
    index = offset_index(disk, [(1005, 100), (1010, 200), (1015, 300)])
    index.truncate_to(1010)
    assert index.entries == 1
    assert index.position_for(2000) == 100
    index.add_offset(1020, 250)
    assert index.position_for(2000) == 250
    index.trim()
    assert disk.load("i.index") == pack(">iiii", 5, 100, 20, 250)


def test_a_time_goes_in_only_if_it_is_later(disk: RealDisk) -> None:
    index = TimeIndex(disk, "i.timeindex", BASE, 1200)
    index.preallocate()
    assert index.last == (-1, BASE)
    for timestamp, offset in ((50, 1001), (50, 1002), (40, 1003), (60, 1004)):
        index.add_time(timestamp, offset)
    assert index.entries == 2
    assert index.last == (60, 1004)
    assert [index.offset_for(time) for time in (49, 50, 59, 60, 99)] == [
        1000,
        1001,
        1001,
        1004,
        1004,
    ]
    index.truncate_to(1004)
    assert index.last == (50, 1001)


def test_an_index_that_was_not_trimmed_is_not_trusted(disk: RealDisk) -> None:
    offset_index(disk, [(1005, 100)])
    time = TimeIndex(disk, "i.timeindex", BASE, 1200)
    time.preallocate()
    time.add_time(5, 1001)
    assert not OffsetIndex(disk, "i.index", BASE, 8000).is_sane(1_000_000)
    assert not TimeIndex(disk, "i.timeindex", BASE, 1200).is_sane()


@pytest.mark.parametrize(
    "data", [b"\0\0\0\5\0\0\0", pack(">ii", 5, 2000), pack(">ii", 0, 10), pack(">ii", -1, 10)]
)
def test_an_offset_index_that_cannot_be_right_is_not_trusted(disk: RealDisk, data: bytes) -> None:
    disk.replace("i.index", data)
    assert not OffsetIndex(disk, "i.index", BASE, 8000).is_sane(2000)


def test_a_trimmed_or_empty_index_is_trusted_and_a_missing_one_is_not(disk: RealDisk) -> None:
    assert not OffsetIndex(disk, "i.index", BASE, 8000).is_sane(1000)
    offset_index(disk, []).trim()
    assert OffsetIndex(disk, "i.index", BASE, 8000).is_sane(1000)
    offset_index(disk, [(1005, 100)]).trim()
    assert OffsetIndex(disk, "i.index", BASE, 8000).is_sane(101)


def test_an_index_is_full_as_kafka_counts(disk: RealDisk) -> None:
    offsets = OffsetIndex(disk, "i.index", BASE, 8 * 2)
    offsets.preallocate()
    times = TimeIndex(disk, "i.timeindex", BASE, 12 * 2)
    times.preallocate()
    offsets.add_offset(1001, 1)
    before = (offsets.is_full, times.is_full)
    times.add_time(1, 1001)
    offsets.add_offset(1002, 2)
    assert (before, (offsets.is_full, times.is_full)) == ((False, False), (True, True))


def test_a_full_disk_is_a_fault_and_not_the_end_of_the_process(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = offset_index(disk, [])

    def full(path: str, *_: object) -> None:
        raise DiskFault(path, OSError(28, "No space left on device"))

    monkeypatch.setattr(disk, "zero", full)
    with pytest.raises(DiskFault, match="No space"):
        index.add_offset(1001, 1)
    assert index.entries == 0


def test_batches_without_a_time_leave_the_time_index_empty_and_trusted(disk: RealDisk) -> None:
    index = TimeIndex(disk, "i.timeindex", BASE, 1200)
    index.preallocate()
    index.add_time(-1, 1001)
    index.trim()
    assert (index.entries, TimeIndex(disk, "i.timeindex", BASE, 1200).is_sane()) == (0, True)


def test_a_truncated_time_index_accepts_times_again_that_it_had(disk: RealDisk) -> None:
    index = TimeIndex(disk, "i.timeindex", BASE, 1200)
    index.preallocate()
    for offset in range(1001, 1006):
        index.add_time(offset, offset)
    index.truncate_to(1003)
    index.add_time(1003, 1010)
    index.add_time(1003, 1011)
    assert (index.entries, index.last) == (3, (1003, 1010))
