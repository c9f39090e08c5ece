"""An open file of the log: what it does when the disk is full, slow, or none at all; both twins."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from barnabas.base.errors import DiskFault
from barnabas.base.system_calls import is_cached
from barnabas.disk.inode import Inodes
from barnabas.disk.resident import LEAST, Resident
from tests.support.full_disk import room_for
from tests.support.twins import both

pytestmark = pytest.mark.parametrize("twin", both("barnabas.disk.open_file"))


@contextmanager
def opened(twin: ModuleType, path: Path) -> Iterator[Any]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        yield twin.OpenFile("folder", descriptor, Resident(), Inodes())
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("room", "code"), [(7, errno.ENOSPC), (4, errno.EFBIG)])
def test_a_failed_append_leaves_nothing_and_is_a_fault_of_the_log_directory(
    twin: ModuleType, tmp_path: Path, room: int, code: int
) -> None:
    path = tmp_path / "a.log"
    with opened(twin, path) as file:
        file.append(b"kept")
        with room_for(room), pytest.raises(DiskFault) as fault:
            file.append(b"half of this")
        assert (fault.value.log_dir, fault.value.cause.errno) == ("folder", code)
        assert (path.read_bytes(), file.size) == (b"kept", 4)
        file.append(memoryview(b" on"))
        assert (path.read_bytes(), file.size) == (b"kept on", 7)


def test_a_descriptor_that_is_gone_is_a_fault_too(twin: ModuleType, tmp_path: Path) -> None:
    with opened(twin, tmp_path / "a.log") as file:
        file.append(bytes(3_000_000))
        assert file.warm(0, 200_000) == bytes(200_000)
        descriptor, file._descriptor = file._descriptor, -1
        with pytest.raises(DiskFault, match="descriptor"):
            file.append(b"x")
        with pytest.raises(DiskFault, match="descriptor"):
            file.warm(0, 10)
        file._descriptor = descriptor


@pytest.mark.parametrize("size", [100, 1_000_000])
def test_a_file_system_that_cannot_say_counts_as_warm(twin: ModuleType, size: int) -> None:
    descriptor = os.memfd_create("in memory anyway")
    try:
        file, data = (
            twin.OpenFile("folder", descriptor, Resident(), Inodes()),
            os.urandom(3_000_000),
        )
        file.append(data)
        for position in (0, len(data) - size):
            assert file.warm(position, size) == data[position : position + size]
    finally:
        os.close(descriptor)


def test_what_is_read_is_noted_once_and_what_is_read_again_is_hot(
    twin: ModuleType, tmp_path: Path
) -> None:
    resident = Resident()
    descriptor = os.open(tmp_path / "a.log", os.O_RDWR | os.O_CREAT)
    try:
        file = twin.OpenFile("folder", descriptor, resident, Inodes())
        file.append(bytes(5_000_000))
        file.warm(4_999_000, 1000)  # a copy
        assert (len(resident.files), resident.fresh_bytes) == (0, 0)
        file.warm(1_000_000, 500_000)
        file.warm(1_400_000, 500_000)
        file.warm(1_400_000, 400_000)  # as one who had asked for too much
        assert [each() for each in (*resident.files, *resident.fresh)] == [file, file]
        assert (file._read_from, file._read_to, file._is_hot) == (1_000_000, 1_900_000, False)
        assert resident.fresh_bytes == 900_000 + LEAST
        file.warm(1_200_000, 500_000)
        assert file._is_hot
        file.warm(0, 500_000)
        assert (file._read_from, file._read_to) == (0, 1_900_000)
        assert (len(resident.files), resident.fresh_bytes) == (1, 900_000 + LEAST)
    finally:
        os.close(descriptor)


def evict(descriptor: int) -> None:
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize(("position", "size"), [(0, 100), (2_999_000, 100), (0, 1_000_000)])
def test_data_that_is_not_cached_is_not_waited_for(
    twin: ModuleType, tmp_path: Path, position: int, size: int
) -> None:
    with opened(twin, tmp_path / "a.log") as file:
        file.append(bytes(3_000_000))
        # To ask is to have the kernel read ahead: what is found later is there.
        for _ in range(20):
            evict(file._descriptor)
            if file.warm(position, size) is None:
                return
        evict(file._descriptor)
        if is_cached(file._descriptor, position):
            pytest.skip("this file system keeps its pages, at least now")
        pytest.fail("bytes were always there, or were waited for")
