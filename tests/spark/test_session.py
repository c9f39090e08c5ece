"""Where Spark runs, what is said when it cannot, and that nothing of it is left."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark import session
from barnabas.spark.session import SparkPlace, spark_session
from barnabas.spark.spark_errors import LATE, SparkFailed, unless_late
from tests.spark.commands import barnabas


def test_a_session_that_is_active_is_used_and_left_alone(spark: SparkSession) -> None:
    with spark_session("mine", SparkPlace()) as found:
        assert found is spark
    assert spark.range(3).count() == 3


def test_only_a_spark_that_repeats_no_task_is_embedded() -> None:
    masters = ("local", "local[2]", "local[*]", "local[*,3]", "local-cluster[2,1,1024]", "yarn")
    embedded = [SparkPlace(master).is_embedded for master in masters]
    assert embedded == [True, True, True, False, False, False]
    assert not SparkPlace("local[*]", "sc://host").is_embedded


def test_an_address_that_is_none_of_spark_connect_is_refused() -> None:
    with (
        pytest.raises(Misused, match=r"--remote localhost: expected sc://HOST"),
        spark_session("mine", SparkPlace(remote="localhost")),
    ):
        pass


def test_without_java_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with (
        pytest.raises(CommandFailed, match="Spark needs Java 17 or newer, and there is no `java`"),
        spark_session("mine", SparkPlace()),
    ):
        pass


def test_without_pyspark_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with (
        pytest.raises(CommandFailed, match=r"pip install '\.\[spark\]'"),
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
        pytest.raises(CommandFailed, match=r"broken \(Spark's own log: .*spark\.log\)"),
        spark_session("mine", SparkPlace()),
    ):
        raise SparkFailed("broken")
    assert [path.read_text() for path in tmp_path.rglob("spark.log")] == ["words of Spark"]


def test_nothing_is_left_if_spark_is_not_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens(monkeypatch, tmp_path)
    with spark_session("mine", SparkPlace()):
        assert list(tmp_path.rglob("spark.log"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CommandFailed, match=r"^no topic$"), spark_session("mine", SparkPlace()):
        raise CommandFailed("no topic")
    assert list(tmp_path.iterdir()) == []


def test_work_is_done_again_only_if_a_process_was_late() -> None:
    failures = [SparkFailed(f"reading: {LATE}"), SparkFailed(f"reading: {LATE}")]

    def work() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert unless_late(work) == "done"
    failures = [SparkFailed(f"never raised: {LATE}"), SparkFailed("disk full")]
    with pytest.raises(SparkFailed, match="disk full"):
        unless_late(work)


@pytest.mark.parametrize("command", ["archive", "replay", "transform", "init", "run", "list"])
def test_help_has_examples(command: str) -> None:
    ended = barnabas("pipeline", command, "--help")
    assert ended.code == 0
    assert f"barnabas pipeline {command}" in ended.out
