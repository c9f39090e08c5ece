"""A streaming query as a process of its own, so that it can be killed: copies one topic to another.

`python -m tests.spark.copying BOOTSTRAP SOURCE TARGET FOLDER` goes on from FOLDER/checkpoint, in
micro-batches of 300 records, and ends when all that was there at its start is copied exactly once.
"""

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).parent.parent.parent
BATCH_RECORDS: Final = 300
_DIE_WITH_PARENT: Final = 1


def main(bootstrap: str, source: str, target: str, folder: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    servers = {"kafka.bootstrap.servers": bootstrap}
    spark = (
        SparkSession.builder.master("local[2,20]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", f"{folder}/local")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
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
    spark.stop()


class Copying:
    """The query's process, with all that it started, in a session of its own."""

    def __init__(self, bootstrap: str, source: str, target: str, folder: Path) -> None:
        self._arguments = (bootstrap, source, target, str(folder))
        self._checkpoint = folder / "checkpoint"
        self._log = folder / "spark.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.copying", *self._arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
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
        assert self._process is not None
        parents: dict[int, int] = {}
        daemons = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it ended meanwhile
            if int(fields[3]) == self._process.pid and b"pyspark.daemon" in command:
                parents[int(entry.name)] = int(fields[1])
                daemons.append(int(entry.name))
        return [pid for pid, parent in parents.items() if parent in daemons]


if __name__ == "__main__":
    main(*sys.argv[1:])
