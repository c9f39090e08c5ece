"""The disk of a simulated broker: files in memory, with the faults that a machine's disk has.

disk_contents.py decides what a crash leaves of the files. Besides, operations can be made to fail
(EIO), nothing more may be written (ENOSPC), bits may rot, and work that blocks takes its time.
"""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from barnabas.base.clock import Clock
from barnabas.base.errors import DiskFault
from barnabas.base.randomness import Random
from barnabas.disk.disk import Buffer, Closeable, FileStatus, Space
from barnabas.sim.world.disk_contents import File, Medium

T = TypeVar("T")

# The operations that can be told to fail: those that a broker does while it serves.
FAILING: Final = ("append", "read", "sync", "replace", "rename", "open")
CAPACITY_BYTES: Final = 2**40


class SimDisk:
    """One log folder in memory, from the start of a broker to its end.

    The next life of the broker gets what `crash` or `killed` returns; this one's must not run on.
    """

    def __init__(
        self, folder: str, random: Random, clock: Clock, medium: Medium | None = None
    ) -> None:
        self.folder = folder
        self.is_full = False
        self._random = random
        self._clock = clock
        self._medium = medium or Medium()
        self._locks: list[str] = []
        self._failing: dict[str, int] = {}

    # -- faults --------------------------------------------------------------

    def crash(self) -> "SimDisk":
        """The disk after a power failure: what was not synced is lost from some point on."""
        return self._next(self._medium.after_power_failure(self._random))

    def killed(self) -> "SimDisk":
        """The disk after only the process died: the machine still knows all that was written."""
        return self._next(self._medium)

    def fail_next(self, operation: str, times: int = 1) -> None:
        """Let the next operations of a kind (one of FAILING) end in an input/output error."""
        self._failing[operation] = times

    def rot(self, suffix: str = ".log") -> str | None:
        """Flip a bit in what nobody has read since the machine came up; returns where, if any."""
        return self._medium.rot(self._random, suffix)

    def write_back(self) -> None:
        """Let the machine bring all that was written onto the medium, as it does when idle."""
        self._medium.write_back()

    def mend(self) -> None:
        """No more faults than those that have happened."""
        self._failing.clear()
        self.is_full = False

    def _next(self, medium: Medium) -> "SimDisk":
        return SimDisk(self.folder, self._random, self._clock, medium)

    # -- files ---------------------------------------------------------------

    def open(self, path: str, /, *, create: bool = False) -> "SimFile":
        with self.doing("open", writes=create and path not in self._medium.names):
            file = self._medium.file_or_new(path) if create else self._medium.file(path)
            return SimFile(self, file)

    def map(self, path: str, size: int, /) -> memoryview:
        self.resize(path, size)
        file = self._medium.file(path)
        file.is_mapped = True
        file.cold.clear()
        return memoryview(file.data)

    def resize(self, path: str, size: int, /) -> None:
        with self.doing("resize"):
            file = self._medium.file_or_new(path)
            if len(file.data) < size:
                self.check_room()
            if len(file.data) != size:
                file.resize(size)
                self.touch(file)

    def zero(self, path: str, position: int, size: int, /) -> None:
        with self.doing("zero", writes=True):
            file = self._medium.file(path)
            file.write(position, bytes(size))
            self.touch(file)

    def load(self, path: str, /) -> bytes | None:
        if path not in self._medium.names:
            return None
        with self.doing("read"):
            file = self._medium.file(path)
            return file.read(0, len(file.data))

    def replace(self, path: str, data: bytes, /, *, sync: bool = True) -> None:
        with self.doing("replace", writes=True):
            file = File()
            self._medium.put(f"{path}.tmp", file)
            file.write(0, data)
            self.touch(file)
            if sync:
                file.sync()
            self._medium.move(f"{path}.tmp", path)
        if sync:
            self.sync(os.path.dirname(path))

    def rename(self, path: str, new_path: str, /) -> None:
        with self.doing("rename"):
            self._medium.move(path, new_path)

    def remove(self, path: str, /) -> None:
        with self.doing("remove"):
            self._medium.drop(path)

    def make_folder(self, path: str, /) -> None:
        parts = path.split("/") if path else []
        with self.doing("make_folder", writes=True):
            for count in range(len(parts) + 1):
                above = "/".join(parts[:count])
                if above not in self._medium.names:
                    self._medium.put(above, None)

    def list(self, path: str = "", /) -> "list[str]":
        with self.doing("list"):
            if path not in self._medium.names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            return sorted(os.path.basename(each) for each in self._medium.below(path))

    def status(self, path: str, /) -> FileStatus | None:
        if path not in self._medium.names:
            return None
        file = self._medium.names[path]
        return FileStatus(0, 0) if file is None else FileStatus(len(file.data), file.modified_ms)

    def sync(self, path: str = "", /) -> None:
        with self.doing("sync"):
            if (file := self._medium.names.get(path)) is not None:
                file.sync()
            else:
                self._medium.sync_folder(path)

    def lock(self, path: str, /) -> Closeable | None:
        with self.doing("lock"):
            self._medium.file_or_new(path)
        if path in self._locks:
            return None
        self._locks.append(path)
        return _Lock(lambda: self._locks.remove(path))

    def space(self) -> Space:
        used = sum(len(file.data) for file in self._medium.names.values() if file is not None)
        return Space(CAPACITY_BYTES, 0 if self.is_full else CAPACITY_BYTES - used)

    def let_go(self) -> Iterator[None]:
        return iter(())  # all of it is memory

    # -- for its open files --------------------------------------------------

    @contextmanager
    def doing(self, operation: str, *, writes: bool = False) -> Iterator[None]:
        """Around each operation: it fails if it was told to, and every error names the folder."""
        try:
            if self._failing.get(operation):
                self._failing[operation] -= 1
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if writes:
                self.check_room()
            yield
        except OSError as error:
            raise DiskFault(self.folder, error) from error

    def check_room(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def touch(self, file: File) -> None:
        file.modified_ms = self._clock.now_ms()


class SimFile:
    """An open file of a SimDisk; it keeps its bytes when its name is gone."""

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
    """Held until closed, or until its disk is of no use any more."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release

    def close(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None


class SimOffload:
    """Work that blocks, done by a thread that there is not: it begins and ends a while later."""

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
