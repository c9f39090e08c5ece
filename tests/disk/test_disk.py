"""The contract of the Disk seam, on the real one."""

import errno
import fcntl
import gc
import os
import sys
from pathlib import Path

import pytest

from barnabas.base.errors import DiskFault
from barnabas.disk.disk import DataFile, RealDisk
from barnabas.disk.resident import AT_ONCE, MOST_BYTES


@pytest.fixture
def disk(tmp_path: Path) -> RealDisk:
    disk = RealDisk(str(tmp_path / "data"))
    disk.make_dir("")
    return disk


def warm(file: DataFile, position: int, size: int) -> bytes:
    return as_bytes(file.warm(position, size))


def as_bytes(found: memoryview | None) -> bytes:
    assert found is not None
    return bytes(found)


def test_what_is_appended_can_be_read_and_survives_reopening(disk: RealDisk) -> None:
    file = disk.open("a.log", create=True)
    file.append(b"one")
    file.append(memoryview(b"two"))
    assert file.size == 6
    assert file.read(0, 6) == b"onetwo"
    assert file.read(3, 100) == b"two"
    assert disk.open("a.log").read(2, 2) == b"et"


@pytest.mark.parametrize("size", [10, 200_000, 3_000_000])
def test_warm_bytes_are_the_bytes_of_the_file(disk: RealDisk, size: int) -> None:
    file = disk.open("a.log", create=True)
    data = os.urandom(4_000_000)
    file.append(data)
    for position in (0, 5, 4096, 999_999):
        assert warm(file, position, size) == data[position : position + size]


def test_warm_bytes_are_found_also_after_the_file_grew(disk: RealDisk) -> None:
    file = disk.open("a.log", create=True)
    data = b""
    for size in (300_000, 10, 300_000, 2_000_000, 10):
        more = os.urandom(size)
        file.append(more)
        assert warm(file, len(data), size) == more
        data += more
        assert warm(file, 7, 150_000) == data[7 : 7 + 150_000]


@pytest.mark.parametrize("kept", [0, 10, 2_500_000])
def test_bytes_handed_out_stay_readable_when_the_file_is_cut_or_removed(
    disk: RealDisk, kept: int
) -> None:
    file = disk.open("a.log", create=True)
    data = os.urandom(3_000_000)
    file.append(data)
    held = file.warm(0, len(data))
    assert held is not None
    file.truncate(kept)
    assert bytes(held) == data
    file.append(b"new")
    assert file.read(0, len(data)) == data[:kept] + b"new"
    assert disk.load("a.log") == data[:kept] + b"new"
    disk.remove("a.log")
    assert bytes(held) == data


# The bytes that a page fault brings into memory beside the page itself, in each file.
AROUND = 4 * 1024 * 1024
ONLY_LINUX_TELLS = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells what is resident"
)


def filled(disk: RealDisk, size: int, count: int) -> tuple[bytes, list[DataFile]]:
    data = os.urandom(size)
    files = [disk.open(f"{number}.log", create=True) for number in range(count)]
    for file in files:
        file.append(data)
    return data, files


@ONLY_LINUX_TELLS
def test_of_what_was_read_once_not_much_stays_in_memory(disk: RealDisk) -> None:
    size, piece = MOST_BYTES, 1_000_000
    data, files = filled(disk, size, count=3)
    held: list[memoryview | None] = []
    for position in range(0, size - piece, piece - 100):  # each begins a bit before the last end
        for file in files:
            held.append(file.warm(position, piece))
            assert as_bytes(held[-1]) == data[position : position + piece]  # which brings it there
            assert resident_of(disk.log_dir) <= MOST_BYTES + len(files) * AROUND
    assert as_bytes(held[0]) == data[:piece], "who has some can still read it"


@ONLY_LINUX_TELLS
def test_bytes_that_were_read_again_stay_in_memory_until_all_is_released(disk: RealDisk) -> None:
    size, piece = MOST_BYTES, 1_000_000
    data, files = filled(disk, size, count=2)
    for _ in range(2):
        for file in files:
            for position in range(0, size - piece, piece):
                assert warm(file, position, piece) == data[position : position + piece]
    assert resident_of(disk.log_dir) > 2 * (size - AROUND)
    late = files[0].warm(0, piece)
    steps = sum(1 for _ in disk.release_memory())
    assert steps >= 2, "others have their turn"
    assert resident_of(disk.log_dir) <= AROUND
    assert as_bytes(late) == warm(files[1], 0, piece) == data[:piece]  # back in memory
    del late
    list(disk.release_memory())
    assert resident_of(disk.log_dir) == 0


@ONLY_LINUX_TELLS
def test_bytes_read_during_a_release_stay_for_the_next_one(disk: RealDisk) -> None:
    data, (file,) = filled(disk, 20_000_000, count=1)
    warm(file, 0, len(data))
    for _ in disk.release_memory():
        assert warm(file, 5, 3_000_000) == data[5:3_000_005]
    assert resident_of(disk.log_dir) >= 3_000_000
    assert sum(1 for _ in disk.release_memory()) == 0, "little is one step of many"
    assert resident_of(disk.log_dir) == 0
    assert warm(file, 7, 9) == data[7:16]


def test_a_released_file_can_be_truncated_without_a_copy(disk: RealDisk) -> None:
    _, (file,) = filled(disk, 20_000_000, count=1)
    warm(file, 0, 20_000_000)
    before = os.stat(f"{disk.log_dir}/0.log").st_ino
    for _ in disk.release_memory():
        gc.collect()
        file.truncate(10)
    assert (os.stat(f"{disk.log_dir}/0.log").st_ino, file.size) == (before, 10)


def test_a_closed_file_needs_no_release(disk: RealDisk) -> None:
    cut, forgotten = (disk.open(name, create=True) for name in ("a.log", "b.log"))
    for file in (cut, forgotten):
        file.append(bytes(3 * AT_ONCE))
        assert file.warm(0, 2 * AT_ONCE) is not None
    cut.truncate(10)
    del file, forgotten
    assert len(list(disk.release_memory())) == 2, "steps of the file that is there"
    assert warm(cut, 0, 10) == bytes(10)


def resident_of(folder: str) -> int:
    """How much of the log directory's files counts as memory of this process."""
    size, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):  # a mapping begins: addresses, rights, ..., and its file last
            counts = len(rest) == 5 and rest[4].startswith(f"{folder}/")
        elif first == "Rss:" and counts:
            size += 1024 * int(rest[0])
    return size


def test_mapped_memory_is_the_file(disk: RealDisk) -> None:
    view = disk.map("an.index", 4096)
    assert bytes(view) == bytes(4096)
    disk.zero("an.index", 0, 16)
    view[8:12] = b"abcd"
    del view
    disk.resize("an.index", 12)
    assert disk.load("an.index") == bytes(8) + b"abcd"


def test_a_small_file_is_replaced_whole(disk: RealDisk) -> None:
    assert disk.load("small") is None
    for data in (b"first", b"2", b""):
        disk.replace("small", data)
        assert disk.load("small") == data
    assert disk.list() == ["small"]


def test_what_is_absent_is_an_answer_and_not_a_fault(disk: RealDisk) -> None:
    assert disk.load("absent") is None
    assert disk.status("absent") is None
    disk.remove("absent")
    disk.sync("absent")
    with pytest.raises(DiskFault, match="No such file"):
        disk.open("absent")


def test_directories_are_created_listed_renamed_and_removed_with_all_in_them(
    disk: RealDisk,
) -> None:
    disk.make_dir("t-0")
    disk.make_dir("t-0")
    for name in ("b", "a"):
        disk.replace(f"t-0/{name}", b"", sync=False)
    assert disk.list("t-0") == ["a", "b"]
    disk.rename("t-0", "t-0.deleted")
    disk.sync()
    assert disk.list() == ["t-0.deleted"]
    disk.remove("t-0.deleted")
    assert disk.list() == []


def test_the_room_on_the_file_system_is_known(disk: RealDisk) -> None:
    space = disk.space()
    assert 0 < space.free_bytes <= space.total_bytes


def test_a_log_directory_is_locked_by_one_process_at_a_time(disk: RealDisk) -> None:
    lock = disk.lock(".lock")
    assert lock is not None
    assert RealDisk(disk.log_dir).lock(".lock") is None
    lock.close()
    again = disk.lock(".lock")
    assert again is not None
    again.close()


def test_a_log_directory_is_locked_where_flock_excludes_record_locks_too(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS and BSD, also within one process."""

    def refused(*_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "lockf", refused)
    lock = disk.lock(".lock")
    assert lock is not None
    lock.close()


def test_a_forgotten_file_gives_its_descriptor_back(disk: RealDisk) -> None:
    gc.collect()  # what other tests left must not be counted
    before = len(os.listdir("/dev/fd"))
    file = disk.open("a.log", create=True)
    file.append(bytes(500_000))
    assert file.warm(0, 400_000) is not None
    del file
    assert len(os.listdir("/dev/fd")) == before
