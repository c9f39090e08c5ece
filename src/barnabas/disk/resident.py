"""The resident memory of a log directory's mapped files: bytes that were read and not unmapped yet.

The kernel counts mapped pages as memory of this process, though they belong to the page cache.
Bytes that were read once are unmapped as soon as there are many: few readers want them soon. Bytes
that were read again, or behind another reader, stay mapped until a periodic release of all of them.
"""

import weakref
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

# The most bytes that stay mapped after one read.
MOST_BYTES: Final = 16 * 1024 * 1024
# Unmapping this much costs up to 0.1 ms.
AT_ONCE: Final = 8 * 1024 * 1024
# The fixed cost of a file, in bytes whose unmapping costs as much.
LEAST: Final = 256 * 1024


class MappedFile(Protocol):
    def give_back(self) -> None:
        """Unmap the bytes that were read once, except those of the last read."""

    def release_memory(self) -> Iterator[int]:
        """Unmap all that was read, then drop the mapping; each step yields its count of bytes."""


class Resident:
    """The files that were read since the last release of all."""

    __slots__ = ("files", "fresh", "fresh_bytes")

    def __init__(self) -> None:
        self.files: deque[weakref.ref[MappedFile]] = deque()
        self.fresh: list[weakref.ref[MappedFile]] = []  # those with something that was read once
        self.fresh_bytes = 0

    def give_back(self) -> None:
        """Unmap the bytes that were read once, except those of each file's last read."""
        fresh, self.fresh, self.fresh_bytes = self.fresh, [], 0
        for each in fresh:
            if (file := each()) is not None:
                file.give_back()

    def release_memory(self) -> Iterator[None]:
        """Unmap all of it, a part at each step. Bytes read meanwhile stay for the next release."""
        done, self.fresh, self.fresh_bytes = 0, [], 0
        for _ in range(len(self.files)):
            if (file := self.files.popleft()()) is None:
                continue
            for size in file.release_memory():
                done += max(size, LEAST)
                if done >= AT_ONCE:
                    done = 0
                    yield
