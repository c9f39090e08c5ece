"""The contents of a simulated disk, and what a power failure leaves of them.

The fault model. A file's bytes and its name reach the disk independently:

    bytes   the contents at the last fsync are safe. Of the later writes and truncations, a
            prefix survives, whose length the seed picks. The next write is torn: it survives up
            to some sector, and if it spans several, each of them may hold zeros instead. A write
            inside one sector is atomic.
    memory  each page of a mapped file is as of its last fsync or as of the crash.
    names   creations, renames and removals happen in order. Those up to the last one in an
            fsynced directory are safe; of the others, a prefix survives. Fsync of a file does
            not cover its name, nor the other way round.

Pages that were not accessed since the machine started are cold: only these can have bit rot.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.base.randomness import Random

SECTOR: Final = 512
PAGE: Final = 4096


class Write(NamedTuple):
    """A write at a position of a file."""

    position: int
    data: bytes


class Resize(NamedTuple):
    """A file was truncated, or extended with zeros."""

    size: int


class Put(NamedTuple):
    """A file or directory was created."""

    path: str
    file: "File | None"


class Move(NamedTuple):
    """A file, or a directory with its contents, was renamed."""

    path: str
    new_path: str


class Drop(NamedTuple):
    """A file, or a directory with its contents, was removed."""

    path: str


Naming = Put | Move | Drop
Names = dict[str, "File | None"]  # None for a directory


@dataclass(slots=True, eq=False)
class File:
    """Bytes as a process sees them, the fsynced bytes, and the changes between the two."""

    data: bytearray = field(default_factory=bytearray)
    safe: bytes = b""
    unsynced: list[Write | Resize] = field(default_factory=list)
    is_mapped: bool = False
    modified_ms: int = 0
    cold: set[int] = field(default_factory=set)  # pages, by number

    def write(self, position: int, data: bytes) -> None:
        self.unsynced.append(Write(position, data))
        _perform(self.data, self.unsynced[-1])

    def resize(self, size: int) -> None:
        self.unsynced.append(Resize(size))
        try:
            _perform(self.data, self.unsynced[-1])
        except BufferError:  # mapped: the owner of the mapping is about to renew it
            self.data = bytearray(self.data)
            _perform(self.data, self.unsynced[-1])

    def sync(self) -> None:
        if self.unsynced or self.is_mapped:
            self.safe = bytes(self.data)
            self.unsynced.clear()

    def read(self, position: int, size: int) -> bytes:
        self.cold.difference_update(_pages(position, size))
        return bytes(memoryview(self.data)[position : position + size])

    def is_cold(self, position: int, size: int) -> bool:
        return bool(self.cold) and not self.cold.isdisjoint(_pages(position, size))

    def after_power_failure(self, random: Random) -> "File":
        left = bytearray(self.safe)
        happened = random.below(len(self.unsynced) + 1)
        for change in self.unsynced[:happened]:
            _perform(left, change)
        if happened < len(self.unsynced) and isinstance(torn := self.unsynced[happened], Write):
            _tear(left, torn, random)
        if self.is_mapped:
            _mix(left, self.data, random)
        cold = set(_pages(0, len(left)))
        return File(left, bytes(left), modified_ms=self.modified_ms, cold=cold)


def _pages(position: int, size: int) -> range:
    return range(position // PAGE, (position + size + PAGE - 1) // PAGE)


def _perform(data: bytearray, change: Write | Resize) -> None:
    if isinstance(change, Resize):
        if change.size < len(data):
            del data[change.size :]
        else:
            data.extend(bytes(change.size - len(data)))
        return
    if change.position > len(data):
        data.extend(bytes(change.position - len(data)))
    # A mapped buffer cannot grow, but mapped files do not grow.
    data[change.position : change.position + len(change.data)] = change.data


def _tear(data: bytearray, torn: Write, random: Random) -> None:
    """Apply the first sectors of a write, some of them as zeros."""
    start, end = torn.position, torn.position + len(torn.data)
    borders = [*range(start - start % SECTOR + SECTOR, end, SECTOR)]
    borders = borders[: random.below(len(borders) + 1)]
    for sector_start, sector_end in zip([start, *borders], borders, strict=False):
        sector = torn.data[sector_start - start : sector_end - start]
        arrived = random.below(4) > 0
        _perform(data, Write(sector_start, sector if arrived else bytes(len(sector))))


def _mix(left: bytearray, latest: bytearray, random: Random) -> None:
    for start in range(0, min(len(left), len(latest)), PAGE):
        end = min(start + PAGE, len(left), len(latest))
        if left[start:end] != latest[start:end] and random.below(2):
            left[start:end] = latest[start:end]


class DiskContents:
    """The names and files of one disk. Raises OSError, which callers turn into DiskFault."""

    def __init__(self, names: Names | None = None) -> None:
        self.names: Names = names or {}
        self._safe: Names = dict(self.names)
        self._unsynced: list[Naming] = []

    def file(self, path: str) -> File:
        """Raises FileNotFoundError, IsADirectoryError."""
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if (file := self.names[path]) is None:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return file

    def file_or_new(self, path: str) -> File:
        """Raises FileNotFoundError if its directory does not exist."""
        if path not in self.names:
            self.put(path, File())
        return self.file(path)

    def put(self, path: str, file: File | None) -> None:
        if path and _folder_of(path) not in self.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._do(Put(path, file))

    def move(self, path: str, new_path: str) -> None:
        for needed in (path, _folder_of(new_path)):
            if needed not in self.names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), needed)
        self._do(Move(path, new_path))

    def drop(self, path: str) -> None:
        if path in self.names:
            self._do(Drop(path))

    def below(self, folder: str) -> Iterator[str]:
        """The paths directly in a directory, in no particular order."""
        return (path for path in self.names if path and _folder_of(path) == folder)

    def sync_dir(self, folder: str) -> None:
        seen = [n for n, naming in enumerate(self._unsynced) if folder in _folders_of(naming)]
        count = seen[-1] + 1 if seen else 0
        for naming in self._unsynced[:count]:
            _rename(self._safe, naming)
        del self._unsynced[:count]

    def write_back(self) -> None:
        self._safe = dict(self.names)
        self._unsynced.clear()
        for file in self.names.values():
            if file is not None:
                file.sync()

    def after_power_failure(self, random: Random) -> "DiskContents":
        """The contents after a power failure; this object must not be used any more."""
        names = dict(self._safe)
        for naming in self._unsynced[: random.below(len(self._unsynced) + 1)]:
            _rename(names, naming)
        return DiskContents(
            {
                path: None if (file := names[path]) is None else file.after_power_failure(random)
                for path in sorted(names)
            }
        )

    def rot(self, random: Random, suffix: str) -> str | None:
        """Flip one bit in a cold page of a file with this suffix; return its path."""
        rotten = [
            (path, file, sorted(file.cold))
            for path, file in sorted(self.names.items())
            if file is not None and file.cold and path.endswith(suffix)
        ]
        if not rotten:
            return None
        path, file, pages = rotten[random.below(len(rotten))]
        start = pages[random.below(len(pages))] * PAGE
        position = start + random.below(min(PAGE, len(file.data) - start))
        file.data[position] ^= 1 << random.below(8)
        file.safe = bytes(file.data)
        return path

    def _do(self, naming: Naming) -> None:
        _rename(self.names, naming)
        self._unsynced.append(naming)


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _folders_of(naming: Naming) -> tuple[str, ...]:
    if isinstance(naming, Move):
        return _folder_of(naming.path), _folder_of(naming.new_path)
    return (_folder_of(naming.path),)


def _rename(names: Names, naming: Naming) -> None:
    if isinstance(naming, Put):
        names[naming.path] = naming.file
        return
    path = naming.path
    moved = {path: names.pop(path)}
    if moved[path] is None:
        below = [each for each in names if each.startswith(f"{path}/")]
        moved |= {each: names.pop(each) for each in below}
    if isinstance(naming, Move):
        for each, file in moved.items():
            names[naming.new_path + each.removeprefix(path)] = file
