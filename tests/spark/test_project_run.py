"""A project as its user runs it: created, run, resumed, broken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import create_topic, produce
from tests.support.broker import BrokerProcess

# Starts Spark four times.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def run(
    folder: Path, broker: BrokerProcess, *arguments: object
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "barnabas.cli.main", "pipeline", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "BARNABAS_BOOTSTRAP": broker.bootstrap, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_new_project_runs_resumes_and_reports_errors(
    served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    assert run(tmp_path, served, "init", "shop", "--topic", topic).returncode == 0
    (tmp_path / "shop/transformations/kept.sql").write_text(
        "CREATE STREAMING TABLE kept USING PARQUET AS SELECT * FROM STREAM(orders);"
    )
    missing = run(tmp_path, served, "run", "shop")
    assert missing.returncode == 1
    assert f"shop: topic {topic} does not exist" in missing.stderr.splitlines()[-1]

    create_topic(served.bootstrap, topic, 2)
    create_topic(served.bootstrap, "shop-revenue")
    sample = (tmp_path / "shop/sample.jsonl").read_text().splitlines()
    produce(served.bootstrap, topic, [{"value": line} for line in sample])
    first = run(tmp_path, served, "run", "shop", "--json")
    assert first.returncode == 0, first.stderr
    flows = {flow["flow"]: flow for flow in json.loads(first.stdout)["flows"]}
    assert flows["publish"]["records"] == flows["kept"]["records"] == 120
    assert {flow["state"] for flow in flows.values()} == {"completed"}
    assert flows["publish"]["lag"] == 0

    produce(served.bootstrap, topic, [{"value": sample[0]}])
    again = run(tmp_path, served, "run", "shop", "--json")
    assert again.returncode == 0, again.stderr
    flows = {flow["flow"]: flow for flow in json.loads(again.stdout)["flows"]}
    assert flows["publish"]["records"] == flows["kept"]["records"] == 1

    (tmp_path / "shop/transformations/broken.py").write_text("undefined\n")
    broken = run(tmp_path, served, "run", "shop")
    assert broken.returncode == 1
    assert "broken.py line 1: NameError" in broken.stderr.splitlines()[-1]
