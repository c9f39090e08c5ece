"""The commands of the pages on pipelines, tables and backups run, page by page, in their order.

Left out is only `--continuous`, which tests/spark/test_clusters.py runs.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.base.clock import SystemClock
from tests.spark.commands import barnabas
from tests.spark.conftest import create_topic, produce, started
from tests.support.broker import BrokerProcess
from tests.support.snippets import commands, of

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

# Within what `replay --since --until` of the page selects, and newest.
TIMES_MS = (1_769_864_400_000, SystemClock().now_ms())
RECORDS = 1_100
Run = Callable[[str], None]


def order(number: int) -> dict[str, object]:
    at = "2026-01-31T13:00:00Z" if number % 2 == 0 else "2026-02-02T13:00:00Z"
    value = json.dumps({"id": number, "at": at, "cents": number * 100})
    return {"value": value.encode(), "timestamp": TIMES_MS[number % 2], "partition": number % 3}


@pytest.fixture
def brokers(fresh_broker: Callable[..., BrokerProcess]) -> tuple[BrokerProcess, BrokerProcess]:
    """The cluster of the page, with orders and users, and another one."""
    source, other = (fresh_broker("log.retention.ms=-1", "num.partitions=1") for _ in range(2))
    create_topic(source.bootstrap, "orders", partitions=3)
    create_topic(source.bootstrap, "users")
    produce(source.bootstrap, "orders", [order(number) for number in range(3 * RECORDS)])
    users = [{"key": b"%d" % n, "value": b'{"name": "user %d"}' % n} for n in range(9)]
    produce(source.bootstrap, "users", users)
    return source, other


@pytest.fixture
def run(
    spark: SparkSession,
    brokers: tuple[BrokerProcess, BrokerProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Runs a line of a page in a directory of its own."""
    source, other = brokers
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", source.bootstrap)
    monkeypatch.chdir(tmp_path)

    def here(line: str) -> str:
        line = re.sub(r" --continuous| --every \d+", "", line)
        line = re.sub(r"\b(?:other|new):9092", other.bootstrap, line)
        line = line.replace("s3://bucket/archive", "./archive-of-orders")
        line = line.replace("/data/broker-0 /data/broker-1", str(source.data))
        return re.sub(r"\./barnabas-(cluster|data)", str(source.data), line)

    def run(line: str) -> None:
        words = shlex.split(here(line))[1:]
        ended = barnabas(*words)
        assert ended.code == 0, (line, ended)

    return run


def test_the_commands_of_the_page_on_pipelines_run(run: Run) -> None:
    lines = [line for line in commands("docs/pipelines.md") if "shop" not in line]
    assert len(lines) > 10
    for line in lines:
        run(line)


def test_a_project_of_the_page_on_pipelines_runs(
    fresh_broker: Callable[..., BrokerProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", fresh_broker().bootstrap)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    own = f"{shlex.quote(sys.executable)} -m barnabas.cli.main"
    for line in commands("docs/pipelines.md"):
        if "shop" in line:
            command = re.sub(r"\bbarnabas\b", own, line)
            ran = subprocess.run(
                ["bash", "-euc", command], cwd=tmp_path, capture_output=True, text=True
            )
            assert ran.returncode == 0, (line, ran.stdout, ran.stderr)
    assert '"cents"' in ran.stdout or '"revenue' in ran.stdout, ran.stdout


def test_the_commands_of_the_page_on_tables_run(
    run: Run, spark: SparkSession, brokers: tuple[BrokerProcess, BrokerProcess], tmp_path: Path
) -> None:
    """The second line makes a table of another kind: not in the directory of the first.

    The session is older than the test's directory, so the program gets its full name.
    """
    for line in commands("docs/tables.md"):
        if line.startswith("barnabas pipeline"):
            run(line.replace("--to ./orders --schema", "--to ./typed --schema"))
    (program,) = of("python", page="docs/tables.md")
    expression = program.text.replace("localhost:9092", brokers[0].bootstrap)
    expression = expression.replace("./orders", f"{tmp_path}/orders")
    view = eval(expression.strip(), {"spark": spark})
    assert started(view.count) == 3 * RECORDS


def test_topics_are_mirrored_as_the_page_on_moving_shows(
    run: Run, brokers: tuple[BrokerProcess, BrokerProcess]
) -> None:
    (line,) = (line for line in commands("docs/move-from-kafka.md") if "pipeline" in line)
    run(line)
    ended = barnabas("consume", "users", "-b", brokers[1].bootstrap)
    assert len(ended.out.splitlines()) == 9
