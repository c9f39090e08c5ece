"""A slice of a log file: the bytes of a fetch, read when they are sent."""

from typing import Final, NamedTuple

from barnabas.disk.disk import DataFile


class FileSlice(NamedTuple):
    """Whole batches in one file, or none at all.

    It stays readable while the log rolls, truncates or removes the segment, until the removal
    that the log returned is carried out.
    """

    file: DataFile | None
    position: int
    size: int

    def warm(self) -> memoryview | None:
        """The bytes without waiting for the disk; None if they are not in the page cache."""
        return self.file.warm(self.position, self.size) if self.file else memoryview(b"")

    def load(self) -> bytes:
        """The bytes, from the disk if need be: for a thread. None of them if cut off since."""
        if self.file is None:
            return b""
        data = self.file.read(self.position, self.size)
        # After the read: what was cut before it may have been other bytes, or some of both.
        return data if self.position + self.size <= self.file.size else b""


NOTHING: Final = FileSlice(None, 0, 0)
