"""SIGKILL to `barnabas pipeline table` at each of its steps: each record is in the table once."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from barnabas.spark.table.kill_points import ENVIRONMENT
from tests.spark.conftest import Fill
from tests.spark.test_table_run import rows
from tests.support.broker import BrokerProcess

ENDED_WITHIN_S: Final = 600.0
RECORDS: Final = 40

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]


def run_table(topic: str, to: Path, format: str, bootstrap: str, kill_at: str = "") -> int:
    """The command in a process of its own; return how it ended."""
    arguments = ("pipeline", "table", topic, "--to", to, "--format", format, "--step", 15)
    ended = subprocess.run(
        [sys.executable, "-m", "barnabas.cli.main", *map(str, arguments), "-b", bootstrap],
        env={**os.environ, ENVIRONMENT: kill_at},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=ENDED_WITHIN_S,
        check=False,
    )
    assert b"Traceback" not in ended.stderr, ended.stderr.decode()
    return ended.returncode


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_a_command_killed_at_one_step_after_the_other_leaves_each_record_once(
    format: str, served: BrokerProcess, fill: Fill, topic: str, tmp_path: Path
) -> None:
    fill([{"value": f"v{n}", "partition": n % 2} for n in range(RECORDS)], partitions=2)
    to = tmp_path / "table"
    for point in ("written", "placed", "before-commit", "committed"):
        assert run_table(topic, to, format, served.bootstrap, point) == -signal.SIGKILL
    assert run_table(topic, to, format, served.bootstrap) == 0
    found = [(row["partition"], row["offset"]) for row in rows(format, to)]
    assert found == [(number, offset) for number in (0, 1) for offset in range(RECORDS // 2)]
