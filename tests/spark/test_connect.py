"""The data source through a Spark Connect server in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.spark.conftest import STARTED_LATE, STARTS, Fill
from tests.support.broker import BrokerProcess

pytestmark = pytest.mark.long

# One process can hold a plain session or one of Connect, not both.
SCRIPT: Final = """
import json, sys
from pyspark.sql import SparkSession

bootstrap, topic, folder = sys.argv[1:]
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
spark = SparkSession.builder.remote("local[2]").getOrCreate()
found = {"session": type(spark).__module__}
found["batch"] = spark.read.format("barnabas").options(**options).load().count()
query = (
    spark.readStream.format("barnabas").options(startingOffsets="earliest", **options).load()
    .writeStream.format("memory").queryName("seen").option("checkpointLocation", folder)
    .trigger(availableNow=True).start()
)
query.awaitTermination()
found["stream"] = spark.table("seen").count()
try:
    spark.read.format("barnabas").options(**options | {"subscribe": "nowhere"}).load().collect()
except Exception as failure:
    found["error"] = str(failure)
print("found " + json.dumps(found))
spark.stop()
"""


def test_connect_reads_batches_and_streams(
    fill: Fill, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    fill([{"value": b"v", "partition": n % 2} for n in range(50)], partitions=2)

    found = _run(served.bootstrap, topic, tmp_path)

    assert found["session"] == "pyspark.sql.connect.session"
    assert (found["batch"], found["stream"]) == ("50", "50")
    assert "topic nowhere does not exist; create it with" in found["error"]
    assert "Traceback" not in found["error"].partition("JVM stacktrace")[0]


def _run(bootstrap: str, topic: str, folder: Path) -> dict[str, str]:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    for attempt in range(STARTS):
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT, bootstrap, topic, str(folder / f"checkpoint-{attempt}")],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        for line in ended.stdout.splitlines():
            if "found {" in line:
                told = json.loads(line.partition("found ")[2])
                return {name: str(value) for name, value in told.items()}
        assert STARTED_LATE in ended.stderr, ended.stderr[-3000:]
    raise AssertionError(STARTED_LATE)
