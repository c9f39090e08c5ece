"""The folder of an archive, on a disk or in any file system that Arrow reaches.

_manifest.json                        what belongs to the archive
_lock                                 held while somebody writes, where it is a disk
_staging/                             what is being written
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
from barnabas.spark.small_files import Folder

_MANIFEST: Final = "_manifest.json"
_STAGING: Final = "_staging"
_LOCK: Final = "_lock"


class ArchiveFolder(Folder):
    """Reads and changes an archive's files; which of them belong to it, the manifest says."""

    @property
    def staging_uri(self) -> str:
        return f"{self.uri}/{_STAGING}"

    def load(self, *, must_exist: bool = False) -> Manifest:
        """The archive as it is; an empty one if there is none.

        Raises  CommandFailed if it `must_exist` and does not, or if its manifest cannot be read
        """
        try:
            text = self.read(_MANIFEST)
        except OSError as error:
            raise CommandFailed(f"{self._path(_MANIFEST)}: {error}") from None
        if text is None and must_exist:
            raise CommandFailed(
                f"{self} is no archive: it has no {_MANIFEST};"
                " `barnabas pipeline archive` makes one"
            )
        if text is None:
            return Manifest()
        return parse_manifest(text, self._path(_MANIFEST))

    def commit(self, manifest: Manifest) -> None:
        """Make this the archive: all or nothing, and after a power failure still so."""
        for file in manifest.files:
            self._check_local(file.path)
        self.write(_MANIFEST, manifest.to_json())

    def staged(self) -> list[tuple[str, int]]:
        """The data files that Spark has just written: path below the staging folder, and size."""
        return self._data_files(_STAGING)

    def take(self, staged: str, path: str) -> None:
        """Give a staged file its place. On a disk it is on the medium afterwards."""
        target = self._path(path)
        self._fs.create_dir(posixpath.dirname(target), recursive=True)
        source = self._path(f"{_STAGING}/{staged}")
        self._sync(source)
        self._fs.move(source, target)
        self._sync(posixpath.dirname(target))

    def clear_staging(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(self._path(_STAGING))

    def remove_strangers(self, manifest: Manifest) -> int:
        """Delete data files that do not belong to the archive, as an end without notice leaves."""
        self.clear_staging()
        known = {file.path for file in manifest.files}
        strangers = [path for path, _ in self._data_files("") if path not in known]
        for path in strangers:
            self._fs.delete_file(self._path(path))
        return len(strangers)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else on this machine writes to the archive meanwhile.

        Raises  CommandFailed if somebody does
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
                f"{self} is being written by another process; wait for it, or archive elsewhere"
            ) from None
        try:
            yield
        finally:
            os.close(lock)

    def _data_files(self, below: str) -> list[tuple[str, int]]:
        fs: Any = import_module("pyarrow.fs")
        folder = self._path(below)
        selector = fs.FileSelector(folder, recursive=True, allow_not_found=True)
        found = [
            (posixpath.relpath(each.path, folder), each.size)
            for each in self._fs.get_file_info(selector)
            if each.is_file and each.path.endswith(".parquet")
        ]
        return sorted(each for each in found if not each[0].startswith("_"))

    def _check_local(self, path: str) -> None:
        if self._is_local and not os.path.exists(self._path(path)):
            raise CommandFailed(f"{self._path(path)} belongs to the archive, but is gone")
