"""The sections on tables and exactly-once sinks run to their end as commands, in a small size."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from barnabas.bench.bench_command import counts


def test_numbers_of_rows_are_read_or_refused() -> None:
    assert counts("--rows", "1000,20") == (1_000, 20)
    for wrong in ("0", "1,", "many"):
        with pytest.raises(typer.BadParameter, match="--rows"):
            counts("--rows", wrong)


def measured(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """The rows of a section; the command has left nothing behind."""
    given = ("--smoke", "--json", "-", "--folder", str(folder), *arguments)
    command = [sys.executable, "-m", "barnabas.cli.main", "bench", *given]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert list(folder.iterdir()) == []
    [section] = json.loads(ran.stdout)["sections"]
    assert all(number > 0 for row in section["rows"] for number in row["numbers"].values())
    rows: list[dict[str, Any]] = section["rows"]
    return rows


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_tables_of_each_format_and_a_larger_one_are_measured(tmp_path: Path) -> None:
    names = [row["name"] for row in measured(tmp_path, "--only", "tables", "--rows", "10003,30000")]
    for name in ("parquet", "delta", "iceberg"):
        assert f"{name}, rows written" in names
        assert f"{name}, a step when nothing is new" in names
    assert names[-2:] == ["delta, 30,000 rows: rate", "delta, 30,000 rows: peak of memory"]


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_both_sinks_are_measured(tmp_path: Path) -> None:
    assert len(measured(tmp_path, "--only", "sinks")) == 3
