"""`barnabas pipeline table` in processes of its own that can be killed."""

import multiprocessing
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
PRELOADED: Final = (
    "barnabas.spark.table.table_command", "barnabas.spark.table.table_run", "deltalake", "pandas",
    "barnabas.spark.table_log.iceberg_log", "barnabas.spark.table_log.iceberg_catalog",
    "pyiceberg.io.pyarrow", "pyarrow.parquet", "pyspark.sql.connect.session", "confluent_kafka",
)  # fmt: skip


def run_table(folder: Path, arguments: Sequence[object], kill_at: str = "") -> int:
    """Run the command in a process that has its modules already; return its exit code.

    It is for a Connect server: nothing but the process dies with it.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    log = folder / "command.log"
    command = ("pipeline", "table", *arguments, "--to", folder / "table", "--json")
    process = context.Process(target=_run, args=(list(map(str, command)), kill_at, str(log)))
    process.start()
    process.join(ENDED_WITHIN_S)
    assert process.exitcode is not None, "the command does not end"
    check_output(log.read_text(errors="replace"))
    return process.exitcode


def _run(command: list[str], kill_at: str, log: str) -> None:
    from barnabas.cli.main import run

    os.environ[ENVIRONMENT] = kill_at
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.exit(run(command))


def check_output(text: str) -> None:
    for trace in ("Traceback", "\tat "):
        assert trace not in text, text


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
        check_output(self.output)
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
        # Iceberg's readers go by the hint, which the next run writes if one died before it.
        is_found = format != "iceberg" or (table / "metadata/version-hint.text").exists()
        return rows(format, table) if is_found and has_commit(format, table) else []
    files = open_log(TableDirectory(str(table)), format).files()
    return [row for file in files for row in by_offset(parquet(f"{table}/{file.path}"))]


def has_commit(format: str, table: Path) -> bool:
    return open_log(TableDirectory(str(table)), format).load() is not None
