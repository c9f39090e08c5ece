"""Tables read by Spark with the jars of Delta and of Iceberg, which are fetched by Maven."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from barnabas.bench.compare.maven import Artifact, Unavailable, fetched
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_log import open_log
from tests.spark.test_table_log import add

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ROWS: Final = 12
# The newest releases; each is made for the Spark in its name, and runs on later ones or not.
JARS: Final = {
    "delta": (
        Artifact("io.delta", "delta-spark_4.2_2.13", "4.4.0", alone=True),
        Artifact("io.delta", "delta-storage", "4.4.0", alone=True),
    ),
    "iceberg": (
        Artifact("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0", alone=True),
    ),
}
SCRIPT: Final = """
import sys
from pyspark.sql import SparkSession

format, path, jars = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.jars", jars)
builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
if format == "delta":
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    builder = builder.config("spark.sql.catalog.spark_catalog", catalog)
spark = builder.getOrCreate()
rows = spark.read.format(format).load(path)
print("rows", rows.count(), rows.selectExpr("sum(offset)").first()[0])
"""


@pytest.mark.parametrize("format", sorted(JARS))
def test_spark_reads_the_table_with_the_formats_own_jars(format: str, tmp_path: Path) -> None:
    try:
        folder = fetched(f"{format}-spark-{JARS[format][0].version}", JARS[format])
    except Unavailable as missing:
        pytest.skip(f"the jars of {format} cannot be had: {missing}")
    jars = ",".join(map(str, sorted(folder.glob("*.jar"))))
    table = tmp_path / "table"
    table.mkdir()
    directory = TableDirectory(str(table))
    log = open_log(directory, format)
    for number in range(ROWS):
        add(log, directory, table, number)

    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, format, str(table), jars],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )

    if "NoSuchMethodError" in ended.stderr or "ClassNotFoundException" in ended.stderr:
        pytest.skip(f"this release of {format} does not run on this Spark")
    assert f"rows {ROWS} {sum(range(ROWS))}" in ended.stdout, ended.stderr[-3_000:]
