"""One log directory and its files, as an interface that the simulation replaces.

Paths are relative to the directory. Every OSError becomes a DiskFault that names the directory, so
its owner can take it offline; a missing file is an answer (None), not an error. The simulation
brings a disk of its own, with torn writes and bad sectors.
"""

import errno
import fcntl
import mmap
import os
import shutil
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final, NamedTuple, Protocol

from barnabas.base.errors import DiskFault
from barnabas.disk.file_system import sync_file_system
from barnabas.disk.inode import Inodes
from barnabas.disk.open_file import Buffer as Buffer
from barnabas.disk.open_file import OpenFile
from barnabas.disk.resident import AT_ONCE, Resident

_COPY_AT_ONCE: Final = 1024 * 1024
_LOAD_AT_ONCE: Final = 64 * 1024
# From so many files on, one sync of the whole file system costs less than an fsync of each.
MANY_FILES: Final = 256


class FileStatus(NamedTuple):
    """A file's entry in its directory, read without opening the file."""

    size: int
    modified_ms: int


class Space(NamedTuple):
    """The space on a log directory's file system."""

    total_bytes: int
    free_bytes: int


class Closeable(Protocol):
    def close(self) -> None: ...


class DataFile(Protocol):
    """An open file that grows at its end only; it is closed when nobody refers to it any more.

    So an owner may forget it while a thread still reads from it.
    """

    @property
    def size(self) -> int: ...

    def append(self, data: Buffer, /) -> None:
        """Write all of `data` at the end, in one system call; after a DiskFault, none of it."""

    def read(self, position: int, size: int, /) -> bytes:
        """Up to `size` bytes, fewer only at the end of the file; may have to wait for the disk."""

    def warm(self, position: int, size: int, /) -> memoryview | None:
        """Return the bytes if the page cache has them, else None. They stay readable for good,
        also when the file is truncated or removed."""

    def truncate(self, size: int, /) -> None: ...


class Disk(Protocol):
    """One log directory."""

    @property
    def log_dir(self) -> str:
        """Its path, as `log.dirs` names it."""

    def open(self, path: str, /, *, create: bool = False) -> DataFile: ...

    def map(self, path: str, size: int, /) -> memoryview:
        """Make the file exactly `size` bytes long, with zeros if it grows, and share its memory."""

    def resize(self, path: str, size: int, /) -> None:
        """Create or cut the file to `size` bytes, sparse where it grows."""

    def zero(self, path: str, position: int, size: int, /) -> None:
        """Write zeros into a range of a sparse file, so that changing its memory cannot fail."""

    def end_with(self, path: str, position: int, data: bytes, /) -> None:
        """Write `data` at `position` of a file, created if need be, and end the file behind it."""

    def load(self, path: str, /) -> bytes | None: ...

    def replace(
        self, path: str, data: bytes, /, *, sync: bool = True, private: bool = False
    ) -> None:
        """Put a small file in place of what was there: a reader finds the old or the new, whole.

        Only its owner can read a `private` one.
        """

    def rename(self, path: str, new_path: str, /) -> None: ...

    def remove(self, path: str, /) -> None:
        """Remove the file, or the directory with all in it; no error if it does not exist."""

    def make_dir(self, path: str, /) -> None: ...

    def list(self, path: str = "", /) -> list[str]:
        """Return the names in a directory, sorted."""

    def sizes(self, path: str, /) -> dict[str, int]:
        """Return the names in a directory, sorted, each with the size of the file."""

    def status(self, path: str, /) -> FileStatus | None: ...

    def sync(self, path: str = "", /) -> None:
        """Fsync a file or a directory; blocks. No error if it does not exist."""

    def sync_all(self, paths: Collection[str], /) -> None:
        """Fsync files and directories, however many; blocks. No error if one does not exist."""

    def lock(self, path: str, /) -> Closeable | None:
        """Lock the directory until the lock is closed; None if another process holds it."""

    def space(self) -> Space: ...

    def release_memory(self) -> Iterator[None]:
        """Unmap the bytes that were read, a part at each step: they no longer count as memory of
        this process. The next reader finds them in the page cache."""


class Faults:
    """Turns an OSError of the block into a DiskFault."""

    __slots__ = ("_log_dir",)

    def __init__(self, log_dir: str) -> None:
        self._log_dir = log_dir

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            raise DiskFault(self._log_dir, error) from error


class RealDisk:
    """A directory of the machine's file system; `make_dir("")` creates it."""

    def __init__(self, log_dir: str) -> None:
        self.log_dir = os.path.abspath(log_dir)
        self._resident = Resident()
        self._inodes = Inodes()
        self._faults = Faults(self.log_dir)
        self._lock_file: IO[bytes] | None = None

    def open(self, path: str, /, *, create: bool = False) -> DataFile:
        with self._faults:
            return RealFile(self.log_dir, self._full(path), create, self._resident, self._inodes)

    def map(self, path: str, size: int, /) -> memoryview:
        with self._faults, self._opened(path) as descriptor:
            if os.fstat(descriptor).st_size != size:
                os.ftruncate(descriptor, size)
            return memoryview(mmap.mmap(descriptor, size))

    def resize(self, path: str, size: int, /) -> None:
        with self._faults, self._opened(path) as descriptor:
            os.ftruncate(descriptor, size)

    def zero(self, path: str, position: int, size: int, /) -> None:
        with self._faults, self._opened(path) as descriptor:
            if os.pwrite(descriptor, bytes(size), position) != size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def end_with(self, path: str, position: int, data: bytes, /) -> None:
        with self._faults, self._opened(path) as descriptor:
            if os.pwrite(descriptor, data, position) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.ftruncate(descriptor, position + len(data))

    def load(self, path: str, /) -> bytes | None:
        with self._faults:
            try:
                descriptor = os.open(self._full(path), os.O_RDONLY)
            except FileNotFoundError:
                return None
            try:
                parts = []
                while part := os.read(descriptor, _LOAD_AT_ONCE):
                    parts.append(part)
                return b"".join(parts)
            finally:
                os.close(descriptor)

    def replace(
        self, path: str, data: bytes, /, *, sync: bool = True, private: bool = False
    ) -> None:
        full = self._full(path)
        with self._faults:
            with open(f"{full}.tmp", "wb") as file:
                if private:
                    os.fchmod(file.fileno(), 0o600)
                file.write(data)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            os.replace(f"{full}.tmp", full)
        if sync:
            self.sync(os.path.dirname(path))

    def rename(self, path: str, new_path: str, /) -> None:
        with self._faults:
            os.replace(self._full(path), self._full(new_path))

    def remove(self, path: str, /) -> None:
        full = self._full(path)
        with self._faults, suppress(FileNotFoundError):
            try:
                os.unlink(full)
            except (IsADirectoryError, PermissionError):  # macOS reports a directory so
                if not os.path.isdir(full):
                    raise
                shutil.rmtree(full)

    def make_dir(self, path: str, /) -> None:
        with self._faults:
            os.makedirs(self._full(path), exist_ok=True)

    def list(self, path: str = "", /) -> list[str]:
        with self._faults:
            return sorted(os.listdir(self._full(path)))

    def sizes(self, path: str, /) -> dict[str, int]:
        with self._faults, os.scandir(self._full(path)) as entries:
            return dict(sorted((each.name, each.stat().st_size) for each in entries))

    def status(self, path: str, /) -> FileStatus | None:
        with self._faults, suppress(FileNotFoundError):
            found = os.stat(self._full(path))
            return FileStatus(found.st_size, found.st_mtime_ns // 1_000_000)
        return None

    def sync(self, path: str = "", /) -> None:
        # By name and not by an open descriptor: the owner may close its own at any time.
        with self._faults, suppress(FileNotFoundError):
            _sync(self._full(path))

    def sync_all(self, paths: Collection[str], /) -> None:
        if len(paths) < MANY_FILES or not self._sync_file_system(paths):
            for path in paths:
                self.sync(path)

    def _sync_file_system(self, paths: Collection[str]) -> bool:
        """Sync the whole file system if it holds all of `paths`; return whether it did.

        The lock file is open since the start: an error that another program was the first to see
        is still reported here.
        """
        lock = self._lock_file
        if lock is None or lock.closed:
            return False
        with self._faults:
            device = os.fstat(lock.fileno()).st_dev
            for directory in dict.fromkeys(path.rpartition("/")[0] for path in paths):
                with suppress(FileNotFoundError):
                    if os.stat(self._full(directory)).st_dev != device:
                        return False
            return sync_file_system(lock.fileno())

    def lock(self, path: str, /) -> Closeable | None:
        with self._faults:
            file = open(self._full(path), "ab")  # noqa: SIM115 - held as long as the lock
            try:
                # Kafka takes a record lock, which does not exclude within one process; flock does.
                # On BSD and macOS each excludes the other, in whichever process: flock is enough.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if sys.platform == "linux":
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                file.close()
                return None
            self._lock_file = file
            return file

    def space(self) -> Space:
        with self._faults:
            usage = shutil.disk_usage(self.log_dir)
            return Space(usage.total, usage.free)

    def release_memory(self) -> Iterator[None]:
        return self._resident.release_memory()

    def _full(self, path: str) -> str:
        return f"{self.log_dir}/{path}" if path else self.log_dir

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        descriptor = os.open(self._full(path), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class RealFile(OpenFile):
    """A file of the machine's file system."""

    __slots__ = ("_path",)

    def __init__(
        self, log_dir: str, path: str, create: bool, resident: Resident, inodes: Inodes
    ) -> None:
        self._descriptor = -1  # for __del__, should opening fail
        self._path = path
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644)
        super().__init__(log_dir, descriptor, resident, inodes)

    def read(self, position: int, size: int, /) -> bytes:
        try:
            data = os.pread(self._descriptor, size, position)
            while len(data) < size and (more := self._rest(position, size, data)):
                data += more
            return data
        except OSError as error:
            raise DiskFault(self._log_dir, error) from error

    def truncate(self, size: int, /) -> None:
        for each in self._inode.files:
            each._view = memoryview(b"")
        try:
            # A read of memory mapped beyond a file's end kills the process. If a reader still
            # holds such memory, it keeps the old file, as do all others that have it open.
            if self._inode.is_mapped_beyond(size):
                self._copy_aside(size)
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise DiskFault(self._log_dir, error) from error
        for each in self._inode.files:
            each.size = min(size, each.size)
        self.size = size

    def give_back(self) -> None:
        # Keep the bytes handed out last: they are yet to be sent, which maps them again.
        start, self._fresh_from, self._is_fresh = self._fresh_from, self._noted_at, False
        if not self._is_hot:
            self._give_back(start, self._noted_at)

    def release_memory(self) -> Iterator[int]:
        start, end = self._read_from, self._read_to
        self._is_fresh = self._is_hot = False
        self._read_from = self._read_to = self._fresh_from = self._noted_at = 0
        for piece in range(start, end, AT_ONCE):
            # Hold no mapping between two steps: a truncation would have to copy the file while one
            # exists.
            self._give_back(piece, min(piece + AT_ONCE, end))
            yield min(AT_ONCE, end - piece)
        if not self._read_to:
            # A response that is still to be sent maps its bytes again; they go with the response.
            self._view = memoryview(b"")

    def _give_back(self, start: int, end: int) -> None:
        mapped = self._view.obj
        if isinstance(mapped, mmap.mmap):
            start = max(0, start - self._start)
            start -= start % mmap.PAGESIZE
            end = min(end - self._start, len(mapped))
            if start < end:
                with suppress(OSError):  # locked memory stays: this is only advice
                    mapped.madvise(mmap.MADV_DONTNEED, start, end - start)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _rest(self, position: int, size: int, data: bytes) -> bytes:
        return os.pread(self._descriptor, size - len(data), position + len(data))

    def _copy_aside(self, size: int) -> None:
        copy = f"{self._path}.tmp"
        with open(self._path, "rb") as source, open(copy, "wb") as target:
            while chunk := source.read(min(size - target.tell(), _COPY_AT_ONCE)):
                target.write(chunk)
            target.flush()
            os.fsync(target.fileno())
        os.replace(copy, self._path)
        descriptor = os.open(self._path, os.O_RDWR)
        # In one step: a thread that reads meanwhile must not find its number closed, or reused.
        os.dup2(descriptor, self._descriptor, inheritable=False)
        os.close(descriptor)
        self._inode.remove_file(self)
        self._inode = self._inodes.join(self, os.fstat(self._descriptor))
        _sync(os.path.dirname(self._path))


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
