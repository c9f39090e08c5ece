"""The bytes of a fetch that a thread has read from the disk, sent from the page cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.base.errors import DiskFault
from barnabas.disk.disk import DataFile, RealDisk
from barnabas.disk.page_cache import WORTH_MAPPING
from barnabas.log.segment.file_slice import NOTHING, FileSlice

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


# A segment of twelve batches of 50 kB, each of other bytes. The lines of a case follow.
_SEGMENT = """
import sys
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import RealDisk
from barnabas.log.segment.segment import Segment
from barnabas.wire.records.batch import LOG_OVERHEAD, read_header, stamp
from barnabas.wire.records.records import Record, build_batch

disk = RealDisk(sys.argv[1])
disk.make_dir("t-0")
segment = Segment(disk, "t-0", 0, TopicConfig(), 0)
segment.create()

def put(count, value=b"x"):
    for _ in range(count):
        batch = memoryview(build_batch([Record(0, 1700000000000, None, value * 50000)]))
        stamp(batch, segment.end_offset, len(batch) - LOG_OVERHEAD, 3)
        segment.append(batch, [read_header(batch)])

def locate(upto):
    return segment.locate(0, 300_000, upto, True)

put(6)
expected = segment.file.read(0, segment.size)[:locate(6).size]
"""
_CASES = {
    "it is mapped between two truncations": """
put(6)
extent = locate(12)
loaded = extent.load()
segment.truncate_to(8, 0)
got = [extent.mapped(loaded)]
assert isinstance(got[0], memoryview), "from the page cache"
put(2)
segment.truncate_to(2, 0)
""",
    "it is mapped after two truncations": """
put(6)
extent = locate(12)
loaded = extent.load()
segment.truncate_to(8, 0)
segment.truncate_to(2, 0)
got = [extent.mapped(loaded)]
assert extent.load() == b"", "cut off"
put(6, b"y")
got.append(extent.mapped(loaded))
assert extent.load() == b"", "cut off"
""",
    "a mapping ends below the first of two truncations": """
got = [locate(6).warm()]
put(6)
segment.truncate_to(8, 0)
segment.truncate_to(2, 0)
""",
    "the file was closed since": """
got = [locate(6).warm()]
segment.close()
segment.truncate_to(2, 0)
""",
    "the directory was renamed since": """
extent = locate(6)
got = [extent.warm()]
disk.rename("t-0", "t-1")
segment.on_renamed("t-1")
disk.make_dir("t-0")
segment.truncate_to(2, 0)
got.append(extent.warm())
put(4, b"y")
assert disk.list("t-0") == [], "it has the new name"
assert disk.status("t-1/00000000000000000000.log").size == segment.size
""",
    "the file was renamed since": """
extent = locate(6)
got = [extent.warm()]
segment.rename(".swap")
segment.rename("")
segment.truncate_to(2, 0)
got.append(extent.warm())
""",
}
_CHECK = """
put(6, b"z")
assert all(each == expected for each in got)
after = segment.file.read(0, segment.size)
assert after[:100_000] == expected[:100_000], "batches 0 and 1 are kept"
assert disk.load(segment.path(".log")) == after, "the file has what the segment has"
print("read")
"""


@pytest.mark.parametrize("case", _CASES)
def test_a_truncation_leaves_all_memory_readable_that_anyone_has_mapped(
    tmp_path: Path, case: str
) -> None:
    """In a process of its own, which a read behind the end of a mapped file would end."""
    program = _SEGMENT + _CASES[case] + _CHECK
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr


def test_a_truncated_file_is_only_copied_for_memory_that_is_in_use(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    files = [disk.open("a.log", create=True)]
    files[0].append(DATA)
    files.append(disk.open("a.log"))
    before = os.stat(tmp_path / "a.log").st_ino
    held = [file.warm(0, SIZE) for file in files]
    del held
    files[1].truncate(10)
    assert os.stat(tmp_path / "a.log").st_ino == before
    assert [file.size for file in files] == [10, 10]
