"""The disk of a broker under test: a real directory that can be full, unusable after a kill."""

import asyncio
import errno
import os
from collections.abc import Collection
from dataclasses import dataclass

from barnabas.base.errors import DiskFault
from barnabas.disk.disk import Buffer, Closeable, DataFile, RealDisk


@dataclass(slots=True)
class Volume:
    """One broker's disk space, kept over restarts."""

    is_full: bool = False


class Mount:
    """A volume as a running broker uses it; `end` unmounts it with the broker."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._locks: list[Closeable] = []
        self._is_over = False

    def __call__(self, folder: str) -> "MountedDisk":
        return MountedDisk(folder, self)

    def end(self) -> None:
        """Refuse all further changes and release the locks, as the end of a process does."""
        self._is_over = True
        for lock in self._locks:
            lock.close()

    def hold(self, lock: Closeable) -> None:
        self._locks.append(lock)

    def check_alive(self) -> None:
        """Raises CancelledError if the broker was killed: the write is lost, without a fault."""
        if self._is_over:
            raise asyncio.CancelledError

    def check_room(self, folder: str) -> None:
        """Raises DiskFault if the volume is full."""
        self.check_alive()
        if self._volume.is_full:
            raise DiskFault(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


class MountedDisk(RealDisk):
    """A directory of the machine, whose changes the mount checks."""

    def __init__(self, folder: str, mount: Mount) -> None:
        super().__init__(folder)
        self._mount = mount

    def open(self, path: str, /, *, create: bool = False) -> DataFile:
        if create:
            self._mount.check_room(self.log_dir)
        return MountedFile(super().open(path, create=create), self.log_dir, self._mount)

    def map(self, path: str, size: int, /) -> memoryview:
        status = self.status(path)
        if status is None or status.size < size:
            self._mount.check_room(self.log_dir)
        self._mount.check_alive()
        return super().map(path, size)

    def resize(self, path: str, size: int, /) -> None:
        self._mount.check_room(self.log_dir)
        super().resize(path, size)

    def zero(self, path: str, position: int, size: int, /) -> None:
        self._mount.check_room(self.log_dir)
        super().zero(path, position, size)

    def end_with(self, path: str, position: int, data: bytes, /) -> None:
        self._mount.check_room(self.log_dir)
        super().end_with(path, position, data)

    def replace(
        self, path: str, data: bytes, /, *, sync: bool = True, private: bool = False
    ) -> None:
        self._mount.check_room(self.log_dir)
        # No fsync: the page cache survives a killed process, and tests do not cut the power.
        super().replace(path, data, sync=False, private=private)

    def rename(self, path: str, new_path: str, /) -> None:
        self._mount.check_alive()
        super().rename(path, new_path)

    def remove(self, path: str, /) -> None:
        self._mount.check_alive()
        super().remove(path)

    def make_dir(self, path: str, /) -> None:
        self._mount.check_room(self.log_dir)
        super().make_dir(path)

    def sync(self, path: str = "", /) -> None:
        self._mount.check_alive()

    def sync_all(self, paths: Collection[str], /) -> None:
        self._mount.check_alive()

    def lock(self, path: str, /) -> Closeable | None:
        lock = super().lock(path)
        if lock is not None:
            self._mount.hold(lock)
        return lock


class MountedFile:
    """An open file whose writes the mount checks."""

    def __init__(self, file: DataFile, folder: str, mount: Mount) -> None:
        self._file = file
        self._folder = folder
        self._mount = mount
        self.read = file.read
        self.warm = file.warm

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: Buffer, /) -> None:
        self._mount.check_room(self._folder)
        self._file.append(data)

    def truncate(self, size: int, /) -> None:
        self._mount.check_alive()
        self._file.truncate(size)
