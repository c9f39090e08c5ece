"""The directory of an archive, on a local disk or in any file system that Arrow supports.

_manifest.json                        the files of the archive
_lock                                 held by the writer, on a local disk
_staging/                             files that are being written
topic=orders/day=2026-11-16/*.parquet records, by the UTC day of their timestamps
"""

import os
from typing import Final

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_manifest import Manifest, parse_manifest
from barnabas.spark.data_directory import DataDirectory

_MANIFEST: Final = "_manifest.json"


class ArchiveDirectory(DataDirectory):
    """Reads and changes the files of an archive; its manifest lists those that belong to it."""

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

    def remove_unlisted(self, manifest: Manifest) -> None:
        """Delete data files that the manifest does not list: a crash leaves such files."""
        self.clear_staging()
        listed = {file.path for file in manifest.files}
        for path, _ in self._data_files(""):
            if path not in listed:
                self._fs.delete_file(self._path(path))

    def _check_local(self, path: str) -> None:
        if self._is_local and not os.path.exists(self._path(path)):
            raise CommandFailed(f"{self._path(path)} belongs to the archive but is missing")
