"""The bytes of a fetch that a thread has read from the disk, sent from the page cache."""

import os
from pathlib import Path

import pytest

from barnabas.base.errors import DiskFault
from barnabas.disk.disk import DataFile, RealDisk
from barnabas.log.segment.file_slice import NOTHING, WORTH_MAPPING, FileSlice

SIZE = 4 * WORTH_MAPPING
DATA = os.urandom(SIZE)


@pytest.fixture
def file(tmp_path: Path) -> DataFile:
    disk = RealDisk(str(tmp_path))
    file = disk.open("a.log", create=True)
    file.append(DATA)
    return file


def test_what_was_read_is_sent_from_the_page_cache(file: DataFile) -> None:
    extent = FileSlice(file, 10, SIZE - 10)
    found = extent.mapped(extent.load())
    assert isinstance(found, memoryview)
    assert found == DATA[10:]


def test_few_bytes_stay_where_they_are(file: DataFile) -> None:
    extent = FileSlice(file, 0, WORTH_MAPPING - 1)
    loaded = extent.load()
    assert extent.mapped(loaded) is loaded
    assert NOTHING.mapped(NOTHING.load()) == b""


def test_what_was_cut_off_since_is_not_mapped(file: DataFile) -> None:
    """To read a page behind the end of the file would end the process."""
    extent = FileSlice(file, 0, SIZE)
    loaded = extent.load()
    file.truncate(SIZE // 2)
    assert extent.mapped(loaded) is loaded


@pytest.mark.parametrize("fault", [True, False])
def test_what_the_page_cache_has_not_is_sent_as_it_was_read(
    file: DataFile, monkeypatch: pytest.MonkeyPatch, fault: bool
) -> None:
    def warm(self: DataFile, position: int, size: int) -> None:
        if fault:
            raise DiskFault("a log directory", OSError(12, "Cannot allocate memory"))

    extent = FileSlice(file, 0, SIZE)
    loaded = extent.load()
    monkeypatch.setattr(type(file), "warm", warm)
    assert extent.mapped(loaded) is loaded
