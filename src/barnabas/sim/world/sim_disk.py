"""The simulated disk of a broker: files in memory, with disk faults.

disk_contents.py decides what a crash leaves of the files. In addition, operations can fail (EIO),
the disk can be full (ENOSPC), bits can rot, and blocking work takes time.
"""

import asyncio
import errno
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from barnabas.base.clock import Clock
from barnabas.base.errors import DiskFault
from barnabas.base.randomness import Random
from barnabas.disk.disk import Buffer, Closeable, FileStatus, Space
from barnabas.sim.world.disk_contents import DiskContents, File

T = TypeVar("T")

# The operations that can be made to fail: those of a serving broker.
FAILING: Final = ("append", "read", "sync", "replace", "rename", "open")
CAPACITY_BYTES: Final = 2**40


class SimDisk:
    """One log directory in memory, for one process of a broker.

    The next process uses the disk that `crash` or `killed` returns.
    """

    def __init__(
        self, log_dir: str, random: Random, clock: Clock, contents: DiskContents | None = None
    ) -> None:
        self.log_dir = log_dir
        self.is_full = False
        self._random = random
        self._clock = clock
        self._contents = contents or DiskContents()
        self._locks: list[str] = []
        self._failing: dict[str, int] = {}

    # -- faults --------------------------------------------------------------

    def crash(self) -> "SimDisk":
        """The disk after a power failure: writes without fsync are lost from some point on."""
        return self._next(self._contents.after_power_failure(self._random))

    def killed(self) -> "SimDisk":
        """The disk after the process was killed: all writes survive."""
        return self._next(self._contents)

    def fail_next(self, operation: str, times: int = 1) -> None:
        """Fail the next operations of a kind (one of FAILING) with EIO."""
        self._failing[operation] = times

    def rot(self, suffix: str = ".log") -> str | None:
        """Flip a bit in a page that was not read since the start; return the path, if any."""
        return self._contents.rot(self._random, suffix)

    def write_back(self) -> None:
        """Write all dirty pages to disk, as an idle kernel does."""
        self._contents.write_back()

    def mend(self) -> None:
        """Stop failing operations."""
        self._failing.clear()
        self.is_full = False

    def _next(self, contents: DiskContents) -> "SimDisk":
        return SimDisk(self.log_dir, self._random, self._clock, contents)

    # -- files ---------------------------------------------------------------

    def open(self, path: str, /, *, create: bool = False) -> "SimFile":
        with self.doing("open", writes=create and path not in self._contents.names):
            file = self._contents.file_or_new(path) if create else self._contents.file(path)
            return SimFile(self, file)

    def map(self, path: str, size: int, /) -> memoryview:
        self.resize(path, size)
        file = self._contents.file(path)
        file.is_mapped = True
        file.cold.clear()
        return memoryview(file.data)

    def resize(self, path: str, size: int, /) -> None:
        with self.doing("resize"):
            file = self._contents.file_or_new(path)
            if len(file.data) < size:
                self.check_room()
            if len(file.data) != size:
                file.resize(size)
                self.touch(file)

    def zero(self, path: str, position: int, size: int, /) -> None:
        with self.doing("zero", writes=True):
            file = self._contents.file(path)
            file.write(position, bytes(size))
            self.touch(file)

    def end_with(self, path: str, position: int, data: bytes, /) -> None:
        with self.doing("end_with", writes=True):
            file = self._contents.file_or_new(path)
            file.resize(position + len(data))
            file.write(position, data)
            self.touch(file)

    def load(self, path: str, /) -> bytes | None:
        if path not in self._contents.names:
            return None
        with self.doing("read"):
            file = self._contents.file(path)
            return file.read(0, len(file.data))

    def replace(
        self, path: str, data: bytes, /, *, sync: bool = True, private: bool = False
    ) -> None:
        with self.doing("replace", writes=True):
            file = File()
            self._contents.put(f"{path}.tmp", file)
            file.write(0, data)
            self.touch(file)
            if sync:
                file.sync()
            self._contents.move(f"{path}.tmp", path)
        if sync:
            self.sync(os.path.dirname(path))

    def rename(self, path: str, new_path: str, /) -> None:
        with self.doing("rename"):
            self._contents.move(path, new_path)

    def remove(self, path: str, /) -> None:
        with self.doing("remove"):
            self._contents.drop(path)

    def make_dir(self, path: str, /) -> None:
        parts = path.split("/") if path else []
        with self.doing("make_dir", writes=True):
            for count in range(len(parts) + 1):
                above = "/".join(parts[:count])
                if above not in self._contents.names:
                    self._contents.put(above, None)

    def list(self, path: str = "", /) -> "list[str]":
        with self.doing("list"):
            if path not in self._contents.names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            return sorted(os.path.basename(each) for each in self._contents.below(path))

    def sizes(self, path: str, /) -> dict[str, int]:
        return {name: self._size(f"{path}/{name}") for name in self.list(path)}

    def _size(self, path: str) -> int:
        status = self.status(path)
        return status.size if status else 0

    def status(self, path: str, /) -> FileStatus | None:
        if path not in self._contents.names:
            return None
        file = self._contents.names[path]
        return FileStatus(0, 0) if file is None else FileStatus(len(file.data), file.modified_ms)

    def sync(self, path: str = "", /) -> None:
        with self.doing("sync"):
            if (file := self._contents.names.get(path)) is not None:
                file.sync()
            else:
                self._contents.sync_dir(path)

    def sync_all(self, paths: Collection[str], /) -> None:
        for path in paths:
            self.sync(path)

    def lock(self, path: str, /) -> Closeable | None:
        with self.doing("lock"):
            self._contents.file_or_new(path)
        if path in self._locks:
            return None
        self._locks.append(path)
        return _Lock(lambda: self._locks.remove(path))

    def space(self) -> Space:
        used = sum(len(file.data) for file in self._contents.names.values() if file is not None)
        return Space(CAPACITY_BYTES, 0 if self.is_full else CAPACITY_BYTES - used)

    def release_memory(self) -> Iterator[None]:
        return iter(())  # all of it is memory

    # -- for its open files --------------------------------------------------

    @contextmanager
    def doing(self, operation: str, *, writes: bool = False) -> Iterator[None]:
        """Wraps each operation: injects failures, and raises DiskFault with the log directory."""
        try:
            if self._failing.get(operation):
                self._failing[operation] -= 1
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if writes:
                self.check_room()
            yield
        except OSError as error:
            raise DiskFault(self.log_dir, error) from error

    def check_room(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def touch(self, file: File) -> None:
        file.modified_ms = self._clock.now_ms()


class SimFile:
    """An open file of a SimDisk; it survives the removal of its name."""

    __slots__ = ("_disk", "_file", "size")

    def __init__(self, disk: SimDisk, file: File) -> None:
        self._disk = disk
        self._file = file
        self.size = len(file.data)

    def append(self, data: Buffer, /) -> None:
        with self._disk.doing("append", writes=True):
            self._file.write(self.size, bytes(data))
        self._disk.touch(self._file)
        self.size += len(data)

    def read(self, position: int, size: int, /) -> bytes:
        with self._disk.doing("read"):
            return self._file.read(position, size)

    def warm(self, position: int, size: int, /) -> memoryview | None:
        if self._file.is_cold(position, size):
            return None
        return memoryview(self.read(position, size))

    def truncate(self, size: int, /) -> None:
        with self._disk.doing("truncate"):
            self._file.resize(size)
        self._disk.touch(self._file)
        self.size = size


class _Lock:
    """A lock file, held until closed or until the process ends."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release

    def close(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None


class SimOffload:
    """Blocking work in virtual time: it starts and ends after random delays."""

    def __init__(self, random: Random, most_ms: int = 3) -> None:
        self._random = random
        self.most_ms = most_ms  # more makes the disk slow

    async def __call__(self, work: Callable[[], T], /) -> T:
        await self._pause()
        try:
            return work()
        finally:
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.below(self.most_ms * 1000 + 1) / 2e6)
