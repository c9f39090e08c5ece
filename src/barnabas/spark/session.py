"""The one place that makes a Spark session: embedded, on a cluster's master, or through Connect."""

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.base.ports import free_port
from barnabas.base.randomness import Random
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark.spark_errors import SparkFailed, explain, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EMBEDDED: Final = "local[*]"
# Not local[4,3], which tries tasks three times, nor local-cluster[...], which has executors.
_EMBEDDED: Final = re.compile(r"local(\[(\d+|\*)\])?")
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_CONNECT: Final = "SPARK_CONNECT_MODE_ENABLED"
_LOG: Final = "spark.log"
_ENDED_WITHIN_S: Final = 60.0

_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.connect.serverStacktrace.enabled": "false",
}


@dataclass(frozen=True)
class SparkPlace:
    """Where Spark runs: `remote` is a Connect server's address, else `master` is used."""

    master: str = EMBEDDED
    remote: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_embedded(self) -> bool:
        """Whether all of Spark is one process below this one, which repeats no task by itself."""
        return self.remote is None and _EMBEDDED.fullmatch(self.master) is not None


@contextmanager
def spark_session(
    name: str, place: SparkPlace, *, connect: bool = False
) -> "Iterator[SparkSession]":
    """A session for one command, ended with it; one that is active already is used and left alone.

    With `connect` it is one of Spark Connect wherever Spark runs: declarative pipelines need that.
    What Spark itself writes to stderr goes to a file, which is kept only if Spark fails.

    Raises  Misused if the place cannot be meant, CommandFailed if Spark does not start there
    """
    _check(place)
    quiet_python()
    if not connect and (active := _active()) is not None:
        yield active
        return
    folder, is_told = Path(tempfile.mkdtemp(prefix="barnabas-spark-")), False
    try:
        with _opened(name, place, connect, folder) as session:
            yield session
    except SparkFailed as failure:
        is_told = True
        raise CommandFailed(f"{failure} (Spark's own log: {folder / _LOG})") from None
    finally:
        if not is_told:
            shutil.rmtree(folder, ignore_errors=True)


def quiet_python() -> None:
    """What PySpark says besides what it raises is nothing to its users."""
    from pyspark.logger import PySparkLogger

    logging.getLogger().addFilter(_is_no_signal)
    # The place in the user's code of what cannot be: there is none here.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\b.*")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _is_no_signal(record: logging.LogRecord) -> bool:
    """Spark's bridge logs a stack when Ctrl-C ends a command that waits for it."""
    return "KeyboardInterrupt" not in record.getMessage()


def _check(place: SparkPlace) -> None:
    if place.remote is not None and not place.remote.startswith("sc://"):
        raise Misused(f"--remote {place.remote}: expected sc://HOST[:PORT]")
    try:
        import pyspark.sql  # noqa: F401 - only to see whether it is there
    except ModuleNotFoundError:
        raise CommandFailed(
            "pipelines need Spark; where Barnabas was cloned, pip install '.[spark]' brings it"
        ) from None
    if place.remote is None and "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise CommandFailed(
            "Spark needs Java 17 or newer, and there is no `java`; install one or set JAVA_HOME"
        )


def _active() -> "SparkSession | None":
    from pyspark.sql import SparkSession

    return None if _CONNECT in os.environ else SparkSession.getActiveSession()


@contextmanager
def _opened(name: str, place: SparkPlace, connect: bool, folder: Path) -> "Iterator[SparkSession]":
    if place.remote is not None:
        with _connected(place.remote, {**_runtime(_SETTINGS), **place.settings}) as session:
            yield session
        return
    port = free_port() if connect else None
    with _driver():
        classic = _start(name, place, port, folder)
        try:
            if port is None:
                yield classic
            else:
                with _connected(f"sc://localhost:{port}", {}) as session:
                    yield session
        finally:
            # After a signal there may be nobody left to tell; then it is stopped already.
            with _stderr_to(folder / _LOG), suppress(*spark_errors(), OSError):
                classic.stop()


@contextmanager
def _driver() -> Iterator[None]:
    """The JVM that is started inside has ended after it, with the files that it keeps.

    PySpark leaves it to end some time after this process. One that ran before is left alone.
    """
    from pyspark import SparkContext

    is_ours = SparkContext._gateway is None
    try:
        yield
    finally:
        gateway: Any = SparkContext._gateway
        if is_ours and gateway is not None and gateway.proc is not None:
            SparkContext._gateway = SparkContext._jvm = None
            _end(gateway.proc)
            with suppress(*spark_errors(), OSError):
                gateway.shutdown()


def _end(jvm: "subprocess.Popen[bytes]") -> None:
    """The end of its input asks it to; if it does not end by that in time, it is killed."""
    try:
        jvm.communicate(timeout=_ENDED_WITHIN_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _start(name: str, place: SparkPlace, port: int | None, folder: Path) -> "SparkSession":
    """Spark's driver in a JVM below this process; with a port it also serves Connect there."""
    from pyspark.sql import SparkSession

    settings = {
        **_SETTINGS,
        **(_embedded_settings(folder) if place.is_embedded else {}),
        **(_connect_settings(port) if port is not None else {}),
        **place.settings,
    }
    # Spark looks for data sources with the Python of its environment, whatever its properties say.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    try:
        with _stderr_to(folder / _LOG):
            session: SparkSession = (
                builder.appName(name).master(place.master).config(map=settings).getOrCreate()
            )
    except spark_errors() as error:
        raise SparkFailed(f"Spark did not start on {place.master}: {explain(error)}") from None
    session.sparkContext.setLogLevel("ERROR")
    return session


def _embedded_settings(folder: Path) -> dict[str, str]:
    """For one machine and one command: no web server, few parts, nothing to the network."""
    return {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def _connect_settings(port: int) -> dict[str, str]:
    # The server and the client, which is this process, agree on a token by the environment.
    os.environ.setdefault(_TOKEN, str(Random().uuid()))
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "localhost",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
    }


@contextmanager
def _connected(address: str, settings: Mapping[str, str]) -> "Iterator[SparkSession]":
    """A session on a Connect server. The mark in the environment makes all of PySpark use it."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    before = os.environ.get(_CONNECT)
    os.environ[_CONNECT] = "1"
    builder: Any = ConnectSession.builder
    try:
        try:
            session = builder.remote(address).config(map=dict(settings)).create()
            session.version  # noqa: B018 - the first request to the server
        except spark_errors() as error:
            raise CommandFailed(
                f"no Spark Connect server answers at {address}: {explain(error)}"
            ) from None
        try:
            yield session
        finally:
            session.stop()
    finally:
        os.environ.pop(_CONNECT)
        if before is not None:
            os.environ[_CONNECT] = before


def _runtime(settings: Mapping[str, str]) -> dict[str, str]:
    """Those that a session may set on a server that runs already."""
    return {key: value for key, value in settings.items() if key == "spark.sql.session.timeZone"}


@contextmanager
def _stderr_to(file: Path) -> Iterator[None]:
    """Whatever is started meanwhile writes there for good; this process only until the end."""
    sys.stderr.flush()
    before = os.dup(2)
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(log)
