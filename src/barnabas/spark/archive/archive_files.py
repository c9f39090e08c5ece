"""The directory of an archive, on a local disk or in any file system that Arrow supports.

_manifest.json                        the files of the archive
_lock                                 held by the writer, on a local disk
_staging/                             files that are being written
topic=orders/day=2026-11-16/*.parquet records, by the UTC day of their timestamps
"""

import contextlib
import fcntl
import os
import posixpath
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_manifest import Manifest, parse_manifest
from barnabas.spark.small_files import Directory

_MANIFEST: Final = "_manifest.json"
_STAGING: Final = "_staging"
_LOCK: Final = "_lock"


class ArchiveDirectory(Directory):
    """Reads and changes the files of an archive; its manifest lists those that belong to it."""

    @property
    def staging_uri(self) -> str:
        return f"{self.uri}/{_STAGING}"

    def load(self, *, must_exist: bool = False) -> Manifest:
        """Read the manifest; return an empty one if there is no archive.

        Raises  CommandFailed if it `must_exist` and does not, or if it cannot be read
        """
        try:
            text = self.read(_MANIFEST)
        except OSError as error:
            raise CommandFailed(f"{self._path(_MANIFEST)}: {error}") from None
        if text is None and must_exist:
            raise CommandFailed(
                f"{self} is not an archive: it has no {_MANIFEST};"
                " create one with `barnabas pipeline archive`"
            )
        if text is None:
            return Manifest()
        return parse_manifest(text, self._path(_MANIFEST))

    def commit(self, manifest: Manifest) -> None:
        """Replace the manifest atomically; a power failure afterwards does not undo it."""
        for file in manifest.files:
            self._check_local(file.path)
        self.write(_MANIFEST, manifest.to_json())

    def staged(self) -> list[tuple[str, int]]:
        """The data files that Spark has written: path below the staging directory, and size."""
        return self._data_files(_STAGING)

    def move_staged(self, staged: str, path: str) -> None:
        """Move a staged file to its place. On a local disk it is fsynced on return."""
        target = self._path(path)
        self._fs.create_dir(posixpath.dirname(target), recursive=True)
        source = self._path(f"{_STAGING}/{staged}")
        self._sync(source)
        self._fs.move(source, target)
        self._sync(posixpath.dirname(target))

    def clear_staging(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(self._path(_STAGING))

    def remove_unlisted(self, manifest: Manifest) -> None:
        """Delete data files that the manifest does not list: a crash leaves such files."""
        self.clear_staging()
        listed = {file.path for file in manifest.files}
        for path, _ in self._data_files(""):
            if path not in listed:
                self._fs.delete_file(self._path(path))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock out other writers on this machine.

        Raises  CommandFailed if another process holds the lock
        """
        if not self._is_local:
            yield
            return
        try:
            self._fs.create_dir(self._base, recursive=True)
            lock = os.open(self._path(_LOCK), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise CommandFailed(f"{self}: {error.strerror or error}") from None
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

    def _check_local(self, path: str) -> None:
        if self._is_local and not os.path.exists(self._path(path)):
            raise CommandFailed(f"{self._path(path)} belongs to the archive but is missing")
