"""`barnabas cluster` checks what it needs before it starts or writes anything."""

import shutil
from pathlib import Path

import pytest

from barnabas.cli import extras
from tests.cli.conftest import Barnabas, Ended


def refused(offline: Barnabas, data: Path, *options: str) -> Ended:
    ended = offline("cluster", "-n", 1, "-p", 0, "--data", data, *options)
    assert (ended.code, ended.out, ended.err.count("\n")) == (1, b"", 1), ended.err
    assert not data.exists()
    return ended


def test_without_the_extra_of_the_console_nothing_starts(
    offline: Barnabas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "_NEEDED", ("no_such_module",))
    ended = refused(offline, tmp_path / "c", "--console")
    assert "the console needs no_such_module: run pip install" in ended.err


def test_without_java_nothing_starts(
    offline: Barnabas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert shutil.which("java") is None
    ended = refused(offline, tmp_path / "c")
    assert "needs Java" in ended.err
    assert "--zookeeper" in ended.err
