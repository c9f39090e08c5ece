"""The users of a file: all that have it open or mapped, under whichever name they opened it.

Memory mapped beyond a file's end kills the process that reads it. So whoever truncates a file has
to know the memory of all that had it open, also of those that are closed.
"""

import mmap
import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.disk.open_file import OpenFile


class Inode:
    """One file, as long as it is open or a mapping of it exists."""

    __slots__ = ("__weakref__", "_files", "_mappings")

    def __init__(self) -> None:
        # Replaced and never changed, as several threads open files.
        self._files: tuple[weakref.ref[OpenFile], ...] = ()
        self._mappings: tuple[weakref.ref[Mapping], ...] = ()

    def add_file(self, file: "OpenFile") -> None:
        self._files = (*(each for each in self._files if each() is not None), weakref.ref(file))

    def remove_file(self, file: "OpenFile") -> None:
        self._files = tuple(each for each in self._files if each() not in (None, file))

    def add_mapping(self, mapping: "Mapping") -> None:
        self._mappings = (
            *(each for each in self._mappings if each() is not None),
            weakref.ref(mapping),
        )

    @property
    def files(self) -> "list[OpenFile]":
        return [file for each in self._files if (file := each()) is not None]

    def is_mapped_beyond(self, size: int) -> bool:
        """True if someone may read memory of the file behind its first `size` bytes."""
        return any(mapping.end > size for each in self._mappings if (mapping := each()) is not None)


class Mapping(mmap.mmap):
    """Memory of a file, from some byte on up to `end`; the inode is known as long as it exists."""

    __slots__ = ("end", "inode")

    inode: Inode
    end: int


class Inodes:
    """The files of one log directory that are in use."""

    __slots__ = ("_all", "_lock")

    def __init__(self) -> None:
        self._all: weakref.WeakValueDictionary[tuple[int, int], Inode] = (
            weakref.WeakValueDictionary()
        )
        self._lock = threading.Lock()

    def join(self, file: "OpenFile", status: os.stat_result) -> Inode:
        """Return what `file`, just opened, shares with all others that use the same file."""
        key = (status.st_dev, status.st_ino)
        with self._lock:
            inode = self._all.get(key)
            if inode is None:
                inode = self._all[key] = Inode()
            inode.add_file(file)
        return inode
