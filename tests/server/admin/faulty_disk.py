"""A log directory that a test makes fail, as if its disk had died."""

import errno
from collections.abc import Callable

from barnabas.base.errors import DiskFault
from barnabas.disk.disk import Buffer, DataFile, Faults, RealDisk


class FaultyDisk(RealDisk):
    """A real log directory; once `failing`, everything is refused with EIO, open files included."""

    def __init__(self, folder: str) -> None:
        self.failing = False
        self.before_rename: Callable[[str], None] = lambda path: None
        super().__init__(folder)
        self._faults = FaultsOnPurpose(self)

    def check(self) -> None:
        if self.failing:
            raise DiskFault(self.log_dir, OSError(errno.EIO, "Input/output error"))

    def open(self, path: str, /, *, create: bool = False) -> DataFile:
        return FaultyFile(self, super().open(path, create=create))

    def rename(self, path: str, new_path: str, /) -> None:
        self.before_rename(path)
        super().rename(path, new_path)


class FaultsOnPurpose(Faults):
    def __init__(self, disk: FaultyDisk) -> None:
        super().__init__(disk.log_dir)
        self._check = disk.check

    def __enter__(self) -> None:
        self._check()


class FaultyFile:
    def __init__(self, disk: FaultyDisk, file: DataFile) -> None:
        self._disk = disk
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: Buffer, /) -> None:
        self._disk.check()
        self._file.append(data)

    def read(self, position: int, size: int, /) -> bytes:
        self._disk.check()
        return self._file.read(position, size)

    def warm(self, position: int, size: int, /) -> memoryview | None:
        self._disk.check()
        return self._file.warm(position, size)

    def truncate(self, size: int, /) -> None:
        self._disk.check()
        self._file.truncate(size)
