"""The simulated disk: the contract of a disk, and its fault model."""

import asyncio
import errno

import pytest

from barnabas.base.errors import DiskFault
from barnabas.base.randomness import Random
from barnabas.disk.disk import DataFile, Disk
from barnabas.sim.world.disk_contents import PAGE, SECTOR
from barnabas.sim.world.sim_disk import SimDisk, SimOffload
from tests.disk.test_disk import (
    test_a_small_file_is_replaced_whole,
    test_bytes_handed_out_stay_readable_when_the_file_is_cut_or_removed,
    test_directories_are_created_listed_renamed_and_removed_with_all_in_them,
    test_mapped_memory_is_the_file,
    test_the_room_on_the_file_system_is_known,
    test_warm_bytes_are_found_also_after_the_file_grew,
    test_warm_bytes_are_the_bytes_of_the_file,
    test_what_is_absent_is_an_answer_and_not_a_fault,
    test_what_is_appended_can_be_read_and_survives_reopening,
)

# The contract tests, run on this module's `disk` fixture.
__all__ = [
    "test_a_small_file_is_replaced_whole",
    "test_bytes_handed_out_stay_readable_when_the_file_is_cut_or_removed",
    "test_directories_are_created_listed_renamed_and_removed_with_all_in_them",
    "test_mapped_memory_is_the_file",
    "test_the_room_on_the_file_system_is_known",
    "test_warm_bytes_are_found_also_after_the_file_grew",
    "test_warm_bytes_are_the_bytes_of_the_file",
    "test_what_is_absent_is_an_answer_and_not_a_fault",
    "test_what_is_appended_can_be_read_and_survives_reopening",
]

MANY = range(60)


class Noon:
    def now_ms(self) -> int:
        return 43_200_000


def new_disk(seed: int = 1) -> SimDisk:
    disk = SimDisk("/data", Random(seed), Noon())
    disk.make_dir("")
    disk.sync()
    return disk


@pytest.fixture
def disk() -> SimDisk:
    return new_disk()


def new_file(disk: Disk, path: str) -> DataFile:
    file = disk.open(path, create=True)
    disk.sync()
    return file


# -- what a crash leaves -----------------------------------------------------


def test_synced_bytes_survive_a_power_failure() -> None:
    for seed in MANY:
        disk = new_disk(seed)
        file = new_file(disk, "a.log")
        file.append(b"safe")
        disk.sync("a.log")
        file.append(b"not yet")
        found = disk.crash().load("a.log")
        assert found in (b"safe", b"safenot yet")


def test_any_prefix_of_unsynced_writes_may_survive() -> None:
    found = set()
    for seed in MANY:
        disk = new_disk(seed)
        file = new_file(disk, "a.log")
        for letter in (b"a", b"b", b"c"):
            file.append(letter)
        found.add(disk.crash().load("a.log"))
    assert found == {b"", b"a", b"ab", b"abc"}


def test_a_large_write_is_torn_at_a_sector_and_may_leave_zeros() -> None:
    data = bytes([7]) * (8 * SECTOR)
    lengths, zeros = set(), 0
    for seed in MANY:
        disk = new_disk(seed)
        new_file(disk, "a.log").append(data)
        found = disk.crash().load("a.log")
        assert found is not None
        assert len(found) % SECTOR == 0
        assert set(found) <= {0, 7}
        lengths.add(len(found))
        zeros += 0 in found
    assert len(lengths) > 4
    assert zeros


def test_an_unsynced_truncation_may_be_lost_with_the_writes_after_it() -> None:
    found = set()
    for seed in MANY:
        disk = new_disk(seed)
        file = new_file(disk, "a.log")
        file.append(b"abcd")
        disk.sync("a.log")
        file.truncate(2)
        file.append(b"X")
        found.add(disk.crash().load("a.log"))
    assert found == {b"abcd", b"ab", b"abX"}


def test_unsynced_names_survive_in_order() -> None:
    found = set()
    for seed in MANY:
        disk = new_disk(seed)
        disk.open("a", create=True)
        disk.rename("a", "b")
        disk.open("c", create=True)
        found.add(tuple(disk.crash().list()))
    assert found == {(), ("a",), ("b",), ("b", "c")}


def test_a_synced_file_is_lost_unless_its_directory_was_synced() -> None:
    found = set()
    for seed in MANY:
        disk = new_disk(seed)
        disk.open("a", create=True).append(b"x")
        disk.sync("a")
        found.add(disk.crash().load("a"))
    assert found == {None, b"x"}


def test_a_removed_directory_may_reappear_with_its_contents() -> None:
    found = set()
    for seed in MANY:
        disk = new_disk(seed)
        disk.make_dir("t-0")
        disk.replace("t-0/a", b"1")
        disk.sync()
        disk.rename("t-0", "t-0.gone")
        disk.remove("t-0.gone")
        after = disk.crash()
        found.add(tuple((name, *after.list(name)) for name in after.list()))
    assert found == {(("t-0", "a"),), (("t-0.gone", "a"),), ()}


def test_a_synced_replacement_is_complete() -> None:
    for seed in MANY:
        disk = new_disk(seed)
        disk.replace("small", b"old")
        disk.replace("small", b"new")
        assert disk.crash().load("small") == b"new"


def test_an_unsynced_replacement_leaves_the_old_the_new_or_an_empty_file() -> None:
    found = set()
    for seed in MANY:
        disk = new_disk(seed)
        disk.replace("small", b"old")
        disk.replace("small", b"new", sync=False)
        found.add(disk.crash().load("small"))
    assert found == {b"old", b"new", b""}


def test_pages_of_mapped_memory_survive_independently() -> None:
    found = set()
    for seed in MANY:
        disk = new_disk(seed)
        view = disk.map("an.index", 2 * PAGE)
        disk.sync("an.index")
        disk.sync()
        view[0] = view[PAGE] = 1
        left = disk.crash().load("an.index")
        assert left is not None
        found.add((left[0], left[PAGE]))
    assert found == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_a_killed_process_loses_nothing_but_its_locks() -> None:
    disk = new_disk()
    file = disk.open("a.log", create=True)
    file.append(b"unsynced")
    assert disk.lock(".lock") is not None
    assert disk.lock(".lock") is None
    after = disk.killed()
    assert after.load("a.log") == b"unsynced"
    assert after.lock(".lock") is not None
    found = {after.load("a.log") for after in (disk.crash() for _ in MANY)}
    assert found == {None, b"", b"unsynced"}


def test_written_back_pages_survive() -> None:
    for seed in MANY:
        disk = new_disk(seed)
        disk.make_dir("t-0")
        disk.open("t-0/a.log", create=True).append(b"written")
        view = disk.map("t-0/an.index", 4)
        view[0] = 7
        disk.write_back()
        after = disk.crash()
        assert after.load("t-0/a.log") == b"written"
        assert after.load("t-0/an.index") == bytes([7, 0, 0, 0])


def test_a_crash_is_the_same_for_the_same_seed() -> None:
    def left(seed: int) -> bytes | None:
        disk = new_disk(seed)
        new_file(disk, "a.log").append(bytes(range(256)) * 16)
        return disk.crash().load("a.log")

    assert [left(seed) for seed in MANY] == [left(seed) for seed in MANY]


# -- other faults ------------------------------------------------------------


def test_a_failing_operation_changes_nothing(disk: SimDisk) -> None:
    file = disk.open("a.log", create=True)
    file.append(b"kept")
    disk.fail_next("append")
    with pytest.raises(DiskFault) as fault:
        file.append(b"lost")
    assert fault.value.log_dir == disk.log_dir
    assert fault.value.cause.errno == errno.EIO
    file.append(b"more")
    assert disk.load("a.log") == b"keptmore"


def test_a_full_disk_allows_reads_and_removals_but_no_writes(disk: SimDisk) -> None:
    file = disk.open("a.log", create=True)
    file.append(b"kept")
    disk.is_full = True
    assert disk.space().free_bytes == 0
    for attempt in (
        lambda: file.append(b"x"),
        lambda: disk.replace("b", b""),
        lambda: disk.map("c", 10),
        lambda: disk.make_dir("d"),
        lambda: disk.open("e", create=True),
    ):
        with pytest.raises(DiskFault) as fault:
            attempt()
        assert fault.value.cause.errno == errno.ENOSPC
    assert file.read(0, 4) == b"kept"
    disk.remove("a.log")
    disk.mend()
    file.append(b"x")


def test_bits_rot_only_in_pages_not_read_since_the_start(disk: SimDisk) -> None:
    file = new_file(disk, "a.log")
    data = bytes(3 * PAGE)
    file.append(data)
    disk.sync("a.log")
    assert disk.rot() is None
    after = disk.crash()
    read = after.open("a.log")
    assert read.warm(0, 10) is None
    assert read.read(0, PAGE) == data[:PAGE]
    assert read.warm(0, 10) is not None
    assert after.rot() == "a.log"
    assert read.read(0, PAGE) == data[:PAGE]
    rotten = read.read(PAGE, 2 * PAGE)
    assert sum(byte.bit_count() for byte in rotten) == 1
    assert after.rot() is None


def test_blocking_work_takes_time_and_its_errors_arrive(disk: SimDisk) -> None:
    async def scenario() -> None:
        offload, loop = SimOffload(Random(1), most_ms=20), asyncio.get_running_loop()
        before = loop.time()
        for _ in range(5):
            assert await offload(lambda: 7) == 7
        assert loop.time() > before
        disk.fail_next("sync")
        with pytest.raises(DiskFault):
            await offload(disk.sync)

    asyncio.run(scenario())
