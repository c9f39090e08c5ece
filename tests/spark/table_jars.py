"""Reads tables with Spark and the jars of their format, and writes the rows as JSON.

A program of its own, since the jars must be there when Spark's JVM starts:
`python -m tests.spark.table_jars FORMAT FOLDER JAR,...` reads the tables below FOLDER/tables and
writes FOLDER/rows.json. Nothing of ours is in it.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.catalog.files": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.files.type": "hadoop",
    },
}


def main(format: str, place: str, jars: str) -> None:
    folder = Path(place)
    spark = (
        SparkSession.builder.master("local[2]")
        .config(map=SETTINGS[format])
        .config("spark.sql.catalog.files.warehouse", place)
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", f"{place}/local")
        .config("spark.sql.warehouse.dir", f"{place}/warehouse")
        .getOrCreate()
    )
    rows = {}
    try:
        for path in sorted((folder / "tables").iterdir()):
            name = f"delta.`{path}`" if format == "delta" else f"files.tables.{path.name}"
            found = spark.sql(f"SELECT to_json(struct(*)) AS row FROM {name} WHERE n >= 0")
            rows[path.name] = [json.loads(each.row) for each in found.collect()]
    finally:
        spark.stop()
    (folder / "rows.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
