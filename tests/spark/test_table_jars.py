"""Spark reads the tables with the formats' own jars, without Barnabas.

Optional: the jars are fetched by Maven, and by pip the newest Spark that both formats have jars
for. Where they cannot be had, the test is skipped.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from barnabas.bench.build_cache import kept
from barnabas.bench.compare.maven import Artifact, Unavailable, fetched
from tests.spark.conftest import Fill, produce
from tests.spark.test_table_run import Table, rows, summary, table
from tests.support.broker import BrokerProcess

__all__ = ["table"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]

ROOT: Final = Path(__file__).parent.parent.parent
RUN_WITHIN_S: Final = 600.0
PYSPARK: Final = "pyspark==4.1.4"
JARS: Final = {
    "delta": (
        Artifact("io.delta", "delta-spark_4.1_2.13", "4.4.0", alone=True),
        Artifact("io.delta", "delta-storage", "4.4.0", alone=True),
        Artifact("io.delta", "delta-kernel-api", "4.4.0", alone=True),
        Artifact("io.delta", "delta-kernel-defaults", "4.4.0", alone=True),
    ),
    "iceberg": (
        Artifact("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0", alone=True),
    ),
}


def installed(work: Path) -> Path:
    """PySpark in a directory of its own. Raises Unavailable."""
    target = work / "installed"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile"]
    ran = subprocess.run(
        [*pip, "--no-build-isolation", "--target", str(target), PYSPARK],
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise Unavailable(f"pip could not install {PYSPARK}: {ran.stderr.strip()[-200:]}")
    return target


def needed(format: str) -> tuple[str, str]:
    """The directory of PySpark, and the jars."""
    try:
        folder = fetched(f"{format}-jars-4.1-{JARS[format][0].version}", JARS[format])
        pyspark = kept(PYSPARK.replace("==", "-"), installed)
    except Unavailable as reason:
        pytest.skip(f"no Spark with jars of {format} to read with: {reason}")
    return str(pyspark), ",".join(map(str, sorted(folder.glob("*.jar"))))


def read_with_jars(format: str, folder: Path) -> dict[str, list[dict[str, object]]]:
    pyspark, jars = needed(format)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.table_jars", format, str(folder), jars],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{pyspark}:{ROOT}", "SPARK_HOME": f"{pyspark}/pyspark"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=RUN_WITHIN_S,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout[-5_000:]
    found: dict[str, list[dict[str, object]]] = json.loads((folder / "rows.json").read_text())
    return found


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_spark_with_the_jars_of_the_format_returns_the_rows_that_other_readers_return(
    format: str, fill: Fill, table: Table, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    needed(format)
    kinds = {"appended": ("--partition-by", "day"), "upserted": ("--upsert",)}

    def write(*schema: str) -> None:
        for name, options in kinds.items():
            to = ("--to", tmp_path / "tables" / name)
            summary(table(format, *to, *schema, *options, "--step", 20))

    fill([{"key": f"k{n % 7}", "value": json.dumps({"n": n})} for n in range(50)])
    write("--schema", "n BIGINT")
    more = [{"key": f"k{n % 5}", "value": json.dumps({"n": n, "m": -n})} for n in range(50, 60)]
    produce(served.bootstrap, topic, [*more, {"key": "k6", "value": None}])
    write("--schema", "n BIGINT, m BIGINT")

    found = read_with_jars(format, tmp_path)
    for name, expected in (("appended", 60), ("upserted", 6)):
        ours = [row for row in rows(format, tmp_path / "tables" / name) if row["n"] is not None]
        columns = ("partition", "offset", "n", "m")
        theirs = sorted(tuple(row.get(each) for each in columns) for row in found[name])
        assert theirs == [tuple(row[each] for each in columns) for row in ours]
        assert len(theirs) == expected
