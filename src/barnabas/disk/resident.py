"""What was read of a folder's mapped files: memory of this process, until it is given back.

The page cache has it whoever maps it, but the kernel counts it as ours. What was read once is given
back as soon as there is much of it: few will want it soon. What was read again, or behind another
reader, stays for others that want it until all is given back, which is done from time to time.
"""

import weakref
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

# More than this of what was read once is not kept.
MOST_BYTES: Final = 16 * 1024 * 1024
# To give back so much takes up to 0.1 ms.
AT_ONCE: Final = 8 * 1024 * 1024
# What a file takes at any rate, in bytes that take as long.
LEAST: Final = 256 * 1024


class MappedFile(Protocol):
    def give_back(self) -> None:
        """What was read of it once, but for what was read last."""

    def let_go(self) -> Iterator[int]:
        """All that was read of it, so many bytes at each step, and at last its mapping."""


class Resident:
    """Of which files something was read since all was given back."""

    __slots__ = ("files", "fresh", "fresh_bytes")

    def __init__(self) -> None:
        self.files: deque[weakref.ref[MappedFile]] = deque()
        self.fresh: list[weakref.ref[MappedFile]] = []  # those with something that was read once
        self.fresh_bytes = 0

    def give_back(self) -> None:
        """What was read once, but for the last of each file."""
        fresh, self.fresh, self.fresh_bytes = self.fresh, [], 0
        for each in fresh:
            if (file := each()) is not None:
                file.give_back()

    def let_go(self) -> Iterator[None]:
        """All of it, some at each step. What is read meanwhile is left for the next time."""
        done, self.fresh, self.fresh_bytes = 0, [], 0
        for _ in range(len(self.files)):
            if (file := self.files.popleft()()) is None:
                continue
            for size in file.let_go():
                done += max(size, LEAST)
                if done >= AT_ONCE:
                    done = 0
                    yield
