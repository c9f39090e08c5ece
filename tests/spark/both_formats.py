"""Runs the same queries with our format and with Spark's own, and prints the results as JSON.

A program of its own, since the connector's jars must be there when Spark's JVM starts:
`python -m tests.spark.both_formats BOOTSTRAP FOLDER [JAR,...]`. Without jars only ours is run.
"""

import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

OURS: Final = "barnabas"
THEIRS: Final = "kafka"
STREAMED_WITHIN_S: Final = 240
COLUMNS: Final = (
    "topic", "partition", "offset", "timestampType", "cast(key as string) key",
    "cast(value as string) value", "unix_millis(timestamp) at",
)  # fmt: skip
# Options of a read of what was filled: three partitions of 40 records, at 1000 ms, 1010 ms, ...
READS: Final[dict[str, dict[str, str]]] = {
    "all": {"subscribe": "filled"},
    "pattern": {"subscribePattern": "fil.*"},
    "assigned": {"assign": '{"filled":[0,2]}'},
    "from offsets": {"subscribe": "filled", "startingOffsets": '{"filled":{"0":5,"1":-2,"2":40}}'},
    "to offsets": {"subscribe": "filled", "endingOffsets": '{"filled":{"0":5,"1":-1,"2":0}}'},
    "from a time": {"subscribe": "filled", "startingTimestamp": "1100"},
    "between times": {
        "subscribe": "filled",
        "startingOffsetsByTimestamp": '{"filled":{"0":1100,"1":1000,"2":1390}}',
        "endingOffsetsByTimestamp": '{"filled":{"0":1200,"1":1001,"2":9999}}',
    },
    "in parts": {"subscribe": "filled", "minPartitions": "7"},
    "in small parts": {"subscribe": "filled", "maxRecordsPerPartition": "11"},
}


def listed(frame: DataFrame, *more: str) -> list[list[Any]]:
    rows = frame.selectExpr(*COLUMNS, *more).orderBy("topic", "partition", "offset").collect()
    return [list(row) for row in rows]


class Queries:
    """One session, one cluster."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path, formats: list[str]):
        self._spark = spark
        self._servers = {"kafka.bootstrap.servers": bootstrap}
        self._folder = folder
        self._formats = formats

    def run(self) -> dict[str, dict[str, Any]]:
        """By the query's name what each format, or each pair of them, gave."""
        results: dict[str, dict[str, Any]] = {}
        for name in self._formats:
            for what, options in READS.items():
                results.setdefault(f"read {what}", {})[name] = listed(self._read(name, **options))
            headers = self._read(name, subscribe="filled", includeHeaders="true")
            results.setdefault("read headers", {})[name] = listed(headers, "to_json(headers)")
            filtered = self._read(name, subscribe="filled").where("partition = 1 and offset < 7")
            results.setdefault("read filtered", {})[name] = listed(filtered)
            self._write(name)
        for writer, reader in itertools.product(self._formats, self._formats):
            written = self._read(reader, subscribe=f"written-{writer}", includeHeaders="true")
            columns = ("topic", "partition", "key", "value", "headers")
            rows = written.selectExpr(*(f"to_json(struct({each})) {each}" for each in columns[1:]))
            results.setdefault("written", {})[f"{writer}, read by {reader}"] = sorted(
                list(row) for row in rows.collect()
            )
            results.setdefault("streamed", {})[f"{reader} to {writer}"] = self._stream(
                reader, writer
            )
        return results

    def _read(self, name: str, **options: str) -> DataFrame:
        return self._spark.read.format(name).options(**self._servers, **options).load()

    def _write(self, name: str) -> None:
        frame = self._spark.range(0, 200, 1, 3).selectExpr(
            "if(id % 10 = 0, null, cast(id as string)) key",
            "if(id % 7 = 0, null, concat('value ', id)) value",
            "if(id % 3 = 0, cast(id % 2 as int), null) partition",
            "if(id % 4 = 0, array(named_struct('key', 'h', 'value', cast('x' as binary))), null)"
            " headers",
        )
        # Rows without key and partition may go anywhere: give them a place, to compare the rest.
        placed = frame.selectExpr(
            "key", "value", "headers", "if(key is null, 0, partition) partition"
        )
        options = {**self._servers, "topic": f"written-{name}"}
        placed.write.format(name).mode("append").options(**options).save()

    def _stream(self, reader: str, writer: str) -> list[Any]:
        """Copy the filled topic in micro-batches; return the copy as our own format reads it."""
        topic = f"streamed-{reader}-{writer}"
        read = self._spark.readStream.format(reader).options(
            **self._servers,
            subscribe="filled",
            startingOffsets="earliest",
            maxOffsetsPerTrigger="50",
        )
        options = {**self._servers, "topic": topic, "checkpointLocation": f"{self._folder}/{topic}"}
        if writer == OURS:
            options["exactlyOnce"] = "true"
        query = (
            read.load()
            .selectExpr("key", "value", "partition")
            .writeStream.format(writer)
            .options(**options)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(STREAMED_WITHIN_S), f"{topic} takes too long"
        rows = self._read(OURS, subscribe=topic).orderBy("partition", "offset").collect()
        return [[row.partition, bytes(row.key or b"-").decode()] for row in rows]


def main(bootstrap: str, folder: str, jars: str = "") -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "768m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", f"{folder}/local")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    )
    if jars:
        builder = builder.config("spark.jars", jars)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        formats = [OURS, THEIRS] if jars else [OURS]
        results = Queries(spark, bootstrap, Path(folder), formats).run()
    finally:
        spark.stop()
    Path(folder, "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
