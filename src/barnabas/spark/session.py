"""Spark sessions for commands: embedded, on a cluster's master, or through Spark Connect."""

import logging
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.base.ports import free_port
from barnabas.base.randomness import Random
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark.class_archive import WRITES_ARCHIVE, class_archive
from barnabas.spark.session_directory import LOG, keep_log, session_directory
from barnabas.spark.spark_errors import (
    SparkCommandFailed,
    explain,
    spark_errors,
    spark_failures,
)
from barnabas.spark.terminal import show_status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EMBEDDED: Final = "local[*]"
# Not local[4,3], which retries tasks, and not local-cluster[...], which has executors.
_EMBEDDED: Final = re.compile(r"local(\[(\d+|\*)\])?")
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_CONNECT: Final = "SPARK_CONNECT_MODE_ENABLED"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_ENDED_WITHIN_S: Final = 60.0
_ARCHIVED_WITHIN_S: Final = 60.0  # some seconds, but on a busy machine minutes

_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.connect.serverStacktrace.enabled": "false",
}


@dataclass(frozen=True)
class SparkPlace:
    """Where Spark runs: at `remote`, the address of a Connect server, else on `master`."""

    master: str = EMBEDDED
    remote: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_embedded(self) -> bool:
        """True if Spark is a single child process, which never retries a task on its own."""
        return self.remote is None and _EMBEDDED.fullmatch(self.master) is not None


@contextmanager
def spark_session(
    name: str, place: SparkPlace, *, connect: bool = False, topics: bool = True
) -> "Iterator[SparkSession]":
    """Yield a session that ends with the command; an active session is used and left running.

    With `connect` the session speaks Spark Connect wherever Spark runs: declarative pipelines
    need that. With `topics` it knows `format("barnabas")` at once. Spark's own stderr goes to a
    file, which is kept only if Spark fails.

    Raises  Misused if the place is invalid, CommandFailed if Spark does not start there
    """
    _check(place)
    quiet_python()
    if not connect and (active := _active()) is not None:
        with spark_failures():
            yield active
        return
    with session_directory() as directory:
        try:
            # A command names what it was doing; no other error of Spark gets out with its stack.
            with _opened(name, place, connect, topics, directory) as session, spark_failures():
                yield session
        except SparkCommandFailed as failure:
            log = keep_log(directory)
            where = f" (Spark log: {log})" if log is not None else ""
            raise CommandFailed(f"{failure}{where}") from None


def quiet_python() -> None:
    """Silence PySpark's logging and warnings: every error that matters is raised."""
    from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
    from pyspark.logger import PySparkLogger

    logging.getLogger().addFilter(_is_not_of_py4j)
    # It logs the traceback of a connection that ends with the JVM, after the last result.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # These log the line of the user's code that failed, but the code here is ours.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\b.*")
    # They print a traceback if the JVM ends before they do.
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        setattr(server, "handle_error", _ignore_error)  # noqa: B010 - mypy refuses an assignment
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _ignore_error(server: Any, request: Any, client: Any) -> None:
    """In place of socketserver's method, which prints the error."""


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs to the root logger, with a stack trace, that a connection ended or Ctrl-C came."""
    return record.module != "java_gateway"


def _check(place: SparkPlace) -> None:
    if place.remote is not None and not place.remote.startswith("sc://"):
        raise Misused(f"--remote {place.remote}: expected sc://HOST[:PORT]")
    try:
        import pyspark.sql  # noqa: F401 - only to check that it is installed
    except ModuleNotFoundError:
        raise CommandFailed("pipelines need PySpark: run pip install 'barnabas[spark]'") from None
    if place.remote is None and not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise CommandFailed(
            "Spark needs Java 17 or newer, but `java` is not on the PATH; install it, or set"
            " JAVA_HOME"
        )


def _active() -> "SparkSession | None":
    from pyspark.sql import SparkSession

    return None if _CONNECT in os.environ else SparkSession.getActiveSession()


@contextmanager
def _opened(
    name: str, place: SparkPlace, connect: bool, topics: bool, directory: Path
) -> "Iterator[SparkSession]":
    if place.remote is not None:
        with _connected(place.remote, {**_runtime(_SETTINGS), **place.settings}) as session:
            yield session
        return
    port = free_port() if connect else None
    with (
        class_archive() if place.is_embedded else nullcontext("") as java_options,
        _driver(is_archiving=WRITES_ARCHIVE in java_options),
    ):
        classic = _start(name, place, port, directory, java_options)
        try:
            if port is None:
                if topics and place.is_embedded:
                    _find_format(classic)
                yield classic
            else:
                with _connected(f"sc://localhost:{port}", {}) as session:
                    yield session
        finally:
            # A signal may have ended the JVM before.
            with _stderr_to(directory / LOG), suppress(*spark_errors(), OSError):
                classic.stop()


@contextmanager
def _driver(*, is_archiving: bool) -> Iterator[None]:
    """End the JVM that is started inside, so that its temporary files are removed too.

    PySpark alone would let it outlive this process. A JVM that ran before is left running.
    """
    from pyspark import SparkContext

    is_ours, is_complete = SparkContext._gateway is None, False
    try:
        yield
        is_complete = True
    finally:
        gateway: Any = SparkContext._gateway
        if is_ours and gateway is not None and gateway.proc is not None:
            SparkContext._gateway = SparkContext._jvm = None
            if not is_archiving:
                _end(gateway.proc, _ENDED_WITHIN_S)
            elif is_complete:
                with show_status("archiving Spark's classes for faster starts"):
                    _end(gateway.proc, _ARCHIVED_WITHIN_S)
            else:
                gateway.proc.kill()  # nobody who interrupts a command waits for an archive
                gateway.proc.wait()
            with suppress(*spark_errors(), OSError):
                gateway.shutdown()


def _end(jvm: "subprocess.Popen[bytes]", within_s: float) -> None:
    """Close its input, which asks it to exit; kill it if it does not exit in time."""
    try:
        jvm.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _start(
    name: str, place: SparkPlace, port: int | None, directory: Path, java_options: str
) -> "SparkSession":
    """Start the driver in a child JVM; with a port it also serves Spark Connect there."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    settings = {
        **_SETTINGS,
        **(_embedded_settings(directory) if place.is_embedded else {}),
        **(_connect_settings(port) if port is not None else {}),
        **place.settings,
    }
    if java_options:
        settings[_JAVA_OPTIONS] = f"{java_options} {settings.get(_JAVA_OPTIONS, '')}".strip()
    # Spark looks up data sources with the Python of its environment and ignores its properties.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # The JVM that only composes the command line of the driver's.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    conf = SparkConf(loadDefaults=False).setMaster(place.master).setAppName(name)
    conf.setAll(list(settings.items()))
    context: Any = SparkContext
    builder: Any = SparkSession.builder
    try:
        with show_status("starting Java"), _stderr_to(directory / LOG):
            context._ensure_initialized(conf=conf)
        with show_status(f"starting Spark on {place.master}"), _stderr_to(directory / LOG):
            session: SparkSession = (
                builder.appName(name).master(place.master).config(map=settings).getOrCreate()
            )
    except spark_errors() as error:
        raise SparkCommandFailed(
            f"Spark did not start on {place.master}: {explain(error)}"
        ) from None
    session.sparkContext.setLogLevel("ERROR")
    return session


def _find_format(session: "SparkSession") -> None:
    """Let Spark find the data source, which starts two Python processes.

    Spark skips a look-up in which Python starts too late; then the data source is registered.
    """
    from pyspark.errors import AnalysisException

    from pyspark_barnabas import DefaultSource

    with show_status("finding the data source"), suppress(AnalysisException):  # it exists
        session.dataSource.register(DefaultSource)


def _embedded_settings(directory: Path) -> dict[str, str]:
    """Settings for one machine and one command: no web UI, few partitions, loopback only."""
    return {
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def _connect_settings(port: int) -> dict[str, str]:
    # The server and this process, its client, share a token through the environment.
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
    """A session on a Connect server. The environment variable makes all of PySpark use it."""
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
                f"cannot connect to Spark Connect at {address}: {explain(error)}"
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
    """The settings that a session may change on a running server."""
    return {key: value for key, value in settings.items() if key == "spark.sql.session.timeZone"}


@contextmanager
def _stderr_to(file: Path) -> Iterator[None]:
    """Redirect stderr to a file: for children for good, for this process until the end."""
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
