"""`barnabas pipeline table` in processes of its own that can be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from barnabas.spark.kill_points import ENVIRONMENT
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_log import open_log
from tests.spark.copying import processes_of
from tests.spark.test_table_run import by_offset, parquet, rows
from tests.support.cluster import until

ENDED_WITHIN_S: Final = 900.0


class TableProcess:
    """The command with all that it started, in a session of its own."""

    def __init__(self, folder: Path, arguments: Sequence[object], kill_at: str = "") -> None:
        self._staging = folder / "table" / "_staging"
        self._log = folder / "command.log"
        command = ("pipeline", "table", *arguments, "--to", folder / "table", "--json")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "barnabas.cli.main", *map(str, command)],
                env={**os.environ, ENVIRONMENT: kill_at},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def ended(self) -> int:
        """Wait until it ends; return its exit code. It has printed no traceback."""
        code = self._process.wait(ENDED_WITHIN_S)
        for trace in ("Traceback", "\tat "):
            assert trace not in self.output, self.output
        return code

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def amid_a_write(self) -> bool:
        """Wait until Spark writes files; return False if the command ended before."""
        until(
            lambda: not self.is_running or self._staging.exists(), "files to come", ENDED_WITHIN_S
        )
        return self.is_running

    def kill(self) -> None:
        """SIGKILL to the command, the driver and the Python workers at once."""
        with suppress(ProcessLookupError):  # all of it may have ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def processes(self, named: bytes) -> list[int]:
        return list(processes_of(self._process.pid, named))


def committed(format: str, table: Path) -> list[dict[str, Any]]:
    """The rows of the newest commit, read by others, with the listing of ours for Parquet."""
    if format != "parquet":
        return rows(format, table) if has_commit(format, table) else []
    files = open_log(TableDirectory(str(table)), format).files()
    return [row for file in files for row in by_offset(parquet(f"{table}/{file.path}"))]


def has_commit(format: str, table: Path) -> bool:
    return open_log(TableDirectory(str(table)), format).load() is not None
