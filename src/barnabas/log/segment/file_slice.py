"""A slice of a log file: the bytes of a fetch, read when they are sent."""

from typing import Final, NamedTuple

from barnabas.base.errors import DiskFault
from barnabas.disk.disk import DataFile

# Below this a copy is cheaper than a mapping.
WORTH_MAPPING: Final = 128 * 1024


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

    def mapped(self, loaded: bytes) -> memoryview | bytes:
        """The bytes that `load` returned, in the page cache's memory if that still has them.

        A response to a client that reads slowly, or never, then takes no memory of the process.
        """
        file, end = self.file, self.position + self.size
        if file is None or len(loaded) < WORTH_MAPPING or end > file.size:
            return loaded
        try:
            return file.warm(self.position, self.size) or loaded
        except DiskFault:  # the bytes are here; the next read of the file reports it
            return loaded


NOTHING: Final = FileSlice(None, 0, 0)
