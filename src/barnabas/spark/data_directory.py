"""A directory of data files that Spark writes: staging, moves, and the lock of the writer."""

import contextlib
import fcntl
import os
import posixpath
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from barnabas.base.randomness import Random
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.small_files import Directory

_STAGING: Final = "_staging"
_LOCK: Final = "_lock"


class DataDirectory(Directory):
    """Parquet files below a directory. Spark stages them; the driver moves them to their places."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        # Of this run alone: tasks of a run that died may still write files, in their own directory.
        self._staging = f"{_STAGING}/{Random().uuid().hex[:8]}"

    @property
    def staging_uri(self) -> str:
        return f"{self.uri}/{self._staging}"

    def staged(self) -> list[tuple[str, int]]:
        """The data files that Spark has written: path below the staging directory, and size."""
        return self._data_files(self._staging)

    def move_staged(self, staged: str, path: str) -> None:
        """Move a staged file to its place. On a local disk it is fsynced on return."""
        target = self._path(path)
        self._fs.create_dir(posixpath.dirname(target), recursive=True)
        source = self._path(f"{self._staging}/{staged}")
        self._sync(source)
        self._fs.move(source, target)
        self._sync(posixpath.dirname(target))

    def clear_staging(self) -> None:
        """Delete what was staged; on a local disk, where the lock is held, by any run."""
        # A task that outlives its run may add a file meanwhile: the next run deletes it.
        with contextlib.suppress(OSError):
            self._fs.delete_dir(self._path(_STAGING if self._is_local else self._staging))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock out other writers on this machine.

        Raises  CommandFailed if another process holds the lock
        """
        if not self._is_local:
            yield
            return
        if os.path.exists(self._base) and not os.path.isdir(self._base):
            raise CommandFailed(f"{self} is not a directory; use another path")
        try:
            self._fs.create_dir(self._base, recursive=True)
            lock = os.open(self._path(_LOCK), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise CommandFailed(f"{self}: {_reason(error)}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise CommandFailed(
                f"another process is writing to {self}; wait for it, or use another directory"
            ) from None
        try:
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Turn errors of the file system, such as a full disk, into CommandFailed."""
        try:
            yield
        except BrokenPipeError:  # of the terminal
            raise
        except OSError as error:
            raise CommandFailed(f"{self}: {_reason(error)}") from None

    def _data_files(self, below: str) -> list[tuple[str, int]]:
        fs: Any = import_module("pyarrow.fs")
        directory = self._path(below)
        selector = fs.FileSelector(directory, recursive=True, allow_not_found=True)
        found = [
            (posixpath.relpath(each.path, directory), each.size)
            for each in self._fs.get_file_info(selector)
            if each.is_file and each.path.endswith(".parquet")
        ]
        return sorted(each for each in found if not each[0].startswith("_"))


def _reason(error: OSError) -> str:
    """In a few words, where Arrow says in a sentence what it did."""
    return os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
