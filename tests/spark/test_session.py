"""Spark sessions: where Spark runs, its errors, and what is left behind."""

import logging
import os
import pty
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark import accumulators
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from barnabas.base.clock import SystemClock
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark import session
from barnabas.spark.class_archive import class_archive
from barnabas.spark.session import SparkPlace, quiet_python, spark_session
from barnabas.spark.spark_errors import LATE, SparkCommandFailed, spark_failures, unless_late
from tests.spark.commands import barnabas


def test_a_session_that_is_active_is_used_and_left_alone(spark: SparkSession) -> None:
    with spark_session("mine", SparkPlace()) as found:
        assert found is spark
    assert spark.range(3).count() == 3


def test_only_a_spark_that_never_retries_tasks_is_embedded() -> None:
    masters = ("local", "local[2]", "local[*]", "local[*,3]", "local-cluster[2,1,1024]", "yarn")
    embedded = [SparkPlace(master).is_embedded for master in masters]
    assert embedded == [True, True, True, False, False, False]
    assert not SparkPlace("local[*]", "sc://host").is_embedded


def test_an_invalid_spark_connect_address_is_refused() -> None:
    with (
        pytest.raises(Misused, match=r"--remote localhost: expected sc://HOST"),
        spark_session("mine", SparkPlace(remote="localhost")),
    ):
        pass


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with (
        pytest.raises(
            CommandFailed, match="Spark needs Java 17 or newer, but `java` is not on the PATH"
        ),
        spark_session("mine", SparkPlace()),
    ):
        pass


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with (
        pytest.raises(CommandFailed, match=r"pip install 'barnabas\[spark\]'"),
        spark_session("mine", SparkPlace()),
    ):
        pass


def opens(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make a session begin without Spark, and write to its log."""

    class Opened:
        def __init__(self, *arguments: Any) -> None:
            self._log = arguments[-1] / "spark.log"

        def __enter__(self) -> str:
            self._log.write_text("words of Spark")
            return "session"

        def __exit__(self, *error: object) -> None:
            return None

    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(session, "_opened", Opened)
    monkeypatch.setattr(session, "_active", lambda: None)


def test_the_log_of_spark_is_kept_and_named_if_spark_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens(monkeypatch, tmp_path)
    with (
        pytest.raises(CommandFailed, match=r"broken \(Spark log: .*\.log\)"),
        spark_session("mine", SparkPlace()),
    ):
        raise SparkCommandFailed("broken")
    # Of all that the session wrote, only the log.
    assert [path.read_text() for path in tmp_path.iterdir()] == ["words of Spark"]


@pytest.mark.parametrize(
    "error",
    [
        AnalysisException("[TABLE_NOT_FOUND] The table x cannot be found. SQLSTATE: 42P01\n\tat a"),
        import_module("py4j.protocol").Py4JNetworkError("The table x cannot be found"),
    ],
)
def test_an_error_of_spark_that_a_command_did_not_expect_is_one_sentence(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens(monkeypatch, tmp_path)
    with pytest.raises(CommandFailed) as told, spark_session("mine", SparkPlace()):
        raise error
    assert str(told.value).startswith("The table x cannot be found (Spark log: ")
    assert "\n" not in str(told.value)


def test_the_second_session_maps_the_classes_that_the_first_one_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a JVM that runs no Spark, so that it is quick."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def version(options: str) -> str:
        command = ["java", *options.split(), "-version"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    with class_archive() as options:
        assert "-XX:ArchiveClassesAtExit" in options
        assert version(options) == ""
    (archive,) = (tmp_path / "barnabas").iterdir()
    assert archive.suffix == ".jsa"
    with class_archive() as options:
        assert f"-XX:SharedArchiveFile={archive}" in options
        assert version(options) == ""


def test_a_jvm_that_wrote_no_class_archive_is_not_asked_again_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    class Tomorrow(SystemClock):
        def now_ms(self) -> int:
            return super().now_ms() + 24 * 3_600_000

    with pytest.raises(KeyboardInterrupt), class_archive():
        raise KeyboardInterrupt  # which says nothing about the JVM
    with class_archive() as options:
        assert "-XX:ArchiveClassesAtExit" in options
    with class_archive() as options:
        assert options == ""
    with class_archive(Tomorrow()) as options:
        assert "-XX:ArchiveClassesAtExit" in options


def test_without_a_place_for_it_there_is_no_class_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "barnabas").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with class_archive() as options:
        assert options == ""


def test_no_log_is_left_if_the_failure_is_not_sparks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens(monkeypatch, tmp_path)
    with spark_session("mine", SparkPlace()):
        assert list(tmp_path.rglob("spark.log"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CommandFailed, match=r"^no topic$"), spark_session("mine", SparkPlace()):
        raise CommandFailed("no topic")
    assert list(tmp_path.iterdir()) == []


def test_work_is_retried_only_if_a_worker_started_late_and_each_retry_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failures = [SparkCommandFailed(f"reading: {LATE}"), SparkCommandFailed(f"reading: {LATE}")]

    def work() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert unless_late(work) == "done"
    told = capsys.readouterr().err.splitlines()
    assert [line.rpartition("; ")[2] for line in told] == ["attempt 2 of 30", "attempt 3 of 30"]
    failures = [SparkCommandFailed(f"never raised: {LATE}"), SparkCommandFailed("disk full")]
    with pytest.raises(SparkCommandFailed, match="disk full"):
        unless_late(work)


@pytest.mark.parametrize("command", ["archive", "replay", "transform", "init", "run", "list"])
def test_help_has_examples(command: str) -> None:
    ended = barnabas("pipeline", command, "--help")
    assert ended.code == 0
    assert f"barnabas pipeline {command}" in ended.out


def test_py4js_traceback_of_a_connection_that_ends_is_not_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    quiet_python()
    logging.getLogger("py4j.clientserver").error("Exception while sending command.")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "ended",
    [import_module("py4j.protocol").Py4JNetworkError("the JVM has ended"), KeyboardInterrupt()],
)
def test_what_py4j_logs_of_a_request_that_ends_early_is_not_printed(
    ended: BaseException, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Connection:
        socket = None

        def send_command(self, command: str) -> str:
            raise ended

        def close(self, reset: bool) -> None: ...

    quiet_python()
    client: Any = import_module("py4j.java_gateway").GatewayClient()
    monkeypatch.setattr(client, "_get_connection", Connection)
    with suppress(KeyboardInterrupt):
        client.send_command("c\n", retry=False)
    assert caplog.records == []


def test_the_end_of_the_jvm_prints_no_traceback_of_sparks_accumulators(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet_python()
    server: Any = accumulators._start_update_server("token", False)
    ended, close = threading.Event(), server.shutdown_request

    def closed(request: Any) -> None:
        close(request)
        ended.set()

    monkeypatch.setattr(server, "shutdown_request", closed)
    socket.create_connection(server.server_address).close()
    assert ended.wait(60)
    server.shutdown()
    server.server_close()
    assert capsys.readouterr().err == ""


def test_a_driver_that_is_gone_is_a_failure_of_spark() -> None:
    with (
        pytest.raises(SparkCommandFailed, match="writing: Spark's driver has ended"),
        spark_failures("writing"),
    ):
        raise ConnectionRefusedError(111, "Connection refused")


def test_on_a_terminal_the_start_of_spark_is_shown() -> None:
    code = (
        "from barnabas.spark.terminal import show_status\nwith show_status('starting Spark'): pass"
    )
    parent, child = pty.openpty()
    with os.fdopen(parent, "rb", buffering=0) as terminal:
        subprocess.run([sys.executable, "-c", code], stderr=child, check=True)
        os.close(child)
        assert b"starting Spark..." in terminal.read(4_096)
