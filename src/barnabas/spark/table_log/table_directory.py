"""The directory of a table: staged files to their places, and the files of unfinished steps.

A data file's name begins with the number of its commit: 00000007-5f3a-0000.parquet. A file with a
greater number than the table's last commit belongs to a step that was never committed.
"""

import posixpath
import re
from collections.abc import Container
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.data_directory import DataDirectory
from barnabas.spark.table_log.table_file import TableFile, read_footer

_DATA_FILE: Final = re.compile(r"(\d{8,})-[0-9a-f]{8}-\d{4,}\.parquet")


class TableDirectory(DataDirectory):
    """Moves and removes the data files of a table."""

    def place_staged(self, prefix: str, sequence: int, token: str) -> list[TableFile]:
        """Move all staged files to their places below `prefix`, and read their footers."""
        placed = []
        for number, (staged, size) in enumerate(self.staged()):
            name = f"{sequence:08}-{token}-{number:04}.parquet"
            path = posixpath.join(prefix, posixpath.dirname(staged), name)
            self.move_staged(staged, path)
            placed.append((path, size))
        self.clear_staging()
        with ThreadPoolExecutor(8) as pool:
            files = pool.map(lambda at: read_footer(self._fs, self._base, *at), placed)
            return [file for file in files if file.records]

    def remove_uncommitted(self, sequence: int, live: Container[str] | None = None) -> int:
        """Delete what unfinished steps left, on a local disk; return the number of files.

        With `live`, all files that are not in it go: those that a commit replaced, too.
        Elsewhere no lock keeps other writers out, so their files stay until a vacuum.
        """
        self.clear_staging()
        if not self._is_local:
            return 0
        removed = 0
        for path, _ in self._data_files(""):
            ours = _DATA_FILE.fullmatch(posixpath.basename(path))
            if ours is None:
                continue
            if int(ours[1]) > sequence or (live is not None and path not in live):
                self.delete(path)
                removed += 1
        return removed

    def check_unused(self) -> None:
        """Raises CommandFailed if there are Parquet files that no run of a table wrote."""
        for path, _ in self._data_files(""):
            if _DATA_FILE.fullmatch(posixpath.basename(path)) is None:
                raise CommandFailed(
                    f"{self} is no table but has Parquet files, such as {path}; use another"
                    " directory"
                )
