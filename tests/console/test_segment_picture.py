"""The picture of a partition's segments and indexes, from files as a broker leaves them."""

from pathlib import Path

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.console.pages.segment_picture import PICTURE_WIDTH, find_segments
from barnabas.log.segment.index import OffsetIndex, TimeIndex

AT = TopicPartition("orders", 0)


def write(
    folder: Path, base: int, size: int, positions: list[tuple[int, int]], spare: int = 0
) -> None:
    """A segment whose indexes have these entries and then zeros, as those of an active one."""
    name = str(folder / f"{base:020d}")
    Path(f"{name}.log").write_bytes(bytes(size))
    entries = b"".join(OffsetIndex.FORMAT.pack(*each) for each in positions)
    Path(f"{name}.index").write_bytes(entries + bytes(spare * OffsetIndex.FORMAT.size))
    times = b"".join(
        TimeIndex.FORMAT.pack(1_000 + n, offset) for n, (offset, _) in enumerate(positions)
    )
    Path(f"{name}.timeindex").write_bytes(times + bytes(spare * TimeIndex.FORMAT.size))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The directory of the partition, below that of a broker."""
    folder = tmp_path / "broker-0" / str(AT)
    folder.mkdir(parents=True)
    return folder


def test_an_entry_of_an_index_is_where_it_leads(tmp_path: Path, folder: Path) -> None:
    write(folder, 0, 3_000, [(10, 1_000), (20, 2_000)])
    write(folder, 30, 1_000, [(5, 500)], spare=1_000_000)
    (first, second), *others = find_segments((tmp_path,), AT).values()
    assert others == []
    assert (first.base_offset, first.log, second.base_offset, second.log) == (0, 3_000, 30, 1_000)
    assert (first.by_offset.entries, second.by_offset.entries, second.by_time.entries) == (2, 1, 1)
    scale = first.width / 3_000
    assert first.by_offset.places == pytest.approx((1_000 * scale, 2_000 * scale), abs=0.1)
    assert first.by_time.places == pytest.approx((first.width / 3, first.width * 2 / 3), abs=0.1)
    assert second.by_offset.places == pytest.approx((second.x + second.width / 2,), abs=0.1)
    assert second.x + second.width <= PICTURE_WIDTH


def test_of_very_many_entries_some_are_drawn_from_the_first_to_the_last(
    tmp_path: Path, folder: Path
) -> None:
    write(folder, 0, 100_000, [(n, n) for n in range(1, 100_000)])
    ((segment,),) = find_segments((tmp_path,), AT).values()
    assert segment.by_offset.entries == 99_999
    assert 300 <= len(segment.by_offset.places) <= 600
    assert segment.by_offset.places[-1] > 0.99 * segment.width


def test_a_segment_without_indexes_and_a_directory_without_segments_are_no_failure(
    tmp_path: Path, folder: Path
) -> None:
    assert find_segments((tmp_path,), AT) == {}
    write(folder, 0, 0, [])
    (folder / f"{0:020d}.index").unlink()
    ((segment,),) = find_segments((tmp_path,), AT).values()
    assert (segment.by_offset.entries, segment.by_offset.places) == (0, ())
