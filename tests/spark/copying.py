"""A query in a process of its own that can be killed: copies one topic to another.

`python -m tests.spark.copying stream MASTER BOOTSTRAP SOURCE TARGET FOLDER` goes on from
FOLDER/checkpoint, in micro-batches of 300 records, and ends when all that was there at its start is
copied exactly once. `batch` instead of `stream` is one write of all, by many tasks, which are slow.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from tests.spark.spark_home import spark_home

ROOT: Final = Path(__file__).parent.parent.parent
BATCH_RECORDS: Final = 300
BATCH_TASKS: Final = 12
SLOW_RECORDS: Final = 20
EMBEDDED: Final = "local[2,20]"
EXECUTORS: Final = "local-cluster[2,1,1024]"
_DIE_WITH_PARENT: Final = 1


def main(how: str, master: str, bootstrap: str, source: str, target: str, folder: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    servers = {"kafka.bootstrap.servers": bootstrap}
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "512m")
        .config("spark.task.maxFailures", "20")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", f"{folder}/local")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    {"stream": stream, "batch": batch}[how](spark, servers, source, target, folder)
    spark.stop()


def stream(
    spark: SparkSession, servers: dict[str, str], source: str, target: str, folder: str
) -> None:
    read = spark.readStream.format("barnabas").options(
        **servers,
        subscribe=source,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=str(BATCH_RECORDS),
    )
    query = (
        read.load()
        .selectExpr("key", "value")
        .writeStream.format("barnabas")
        .options(**servers, topic=target, exactlyOnce="true")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def batch(
    spark: SparkSession, servers: dict[str, str], source: str, target: str, folder: str
) -> None:
    """Each task takes some seconds, so that there is time to kill who runs it."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(SLOW_RECORDS))
    read = spark.read.format("barnabas").options(
        **servers, subscribe=source, minPartitions=str(BATCH_TASKS)
    )
    rows = read.load().select("key", "value")
    slow = rows.mapInArrow(slowly, rows.schema)
    slow.write.format("barnabas").options(**servers, topic=target, exactlyOnce="true").mode(
        "append"
    ).save()


def slowly(batches: Iterator[Any]) -> Iterator[Any]:
    for each in batches:
        threading.Event().wait(0.2)
        yield each


class Copying:
    """The query's process, with all that it started, in a session of its own."""

    def __init__(
        self,
        bootstrap: str,
        source: str,
        target: str,
        folder: Path,
        *,
        how: str = "stream",
        master: str = EMBEDDED,
    ) -> None:
        self._arguments = (how, master, bootstrap, source, target, str(folder))
        self._home = spark_home(folder)
        self._checkpoint = folder / "checkpoint"
        self._log = folder / "spark.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.copying", *self._arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_HOME": str(self._home)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL to driver, JVM and Python workers at once."""
        if self._process is not None:
            with suppress(ProcessLookupError):  # all of it may have ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def end(self, within_s: float) -> None:
        """Wait until all is copied. Raises AssertionError if the query failed."""
        assert self._process is not None
        code = self._process.wait(within_s)
        self._process = None
        assert code == 0, f"the query ended with {code}: {self.log_tail()}"

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-6_000:]

    # -- how far it is -------------------------------------------------------

    @property
    def begun(self) -> int:
        """How many micro-batches have begun; each is noted before its tasks run."""
        return self._count("offsets")

    @property
    def done(self) -> int:
        return self._count("commits")

    def _count(self, kind: str) -> int:
        folder = self._checkpoint / kind
        return sum(each.name.isdecimal() for each in folder.iterdir()) if folder.exists() else 0

    def workers(self) -> list[int]:
        """The Python workers that Spark's daemons have forked, which run the tasks."""
        daemons = self._processes(b"pyspark.daemon")
        return [pid for pid, parent in daemons.items() if parent in daemons]

    def executors(self) -> list[int]:
        """The JVMs that run tasks, where the driver's does not."""
        return list(self._processes(b"CoarseGrainedExecutorBackend"))

    def _processes(self, named: bytes) -> dict[int, int]:
        assert self._process is not None
        return processes_of(self._process.pid, named)


def processes_of(session: int, named: bytes) -> dict[int, int]:
    """The processes of a session with that in their command line, and the parents of each."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        if int(fields[3]) == session and named in command:
            found[int(entry.name)] = int(fields[1])
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
