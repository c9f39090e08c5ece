"""The template of a new project: a working pipeline in Python and SQL, with sample data."""

from collections.abc import Mapping
from typing import Final

SPEC: Final = """\
# A project of Spark Declarative Pipelines. Run it with `barnabas pipeline run`, or with Spark's own
# `spark-pipelines run`.
name: {name}
storage: {storage}
configuration:
  spark.sql.session.timeZone: UTC
  barnabas.bootstrap: {bootstrap}
libraries:
  - glob:
      include: transformations/**
"""

_READ: Final = '''\
"""The input: the parsed records of topic {source}."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

spark = SparkSession.active()


@dp.temporary_view
def orders() -> DataFrame:
    records = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", spark.conf.get("barnabas.bootstrap"))
        .option("subscribe", "{source}")
        .option("startingOffsets", "earliest")
        .load()
    )
    fields = "time TIMESTAMP, category STRING, cents LONG"
    return records.select(from_json(col("value").cast("string"), fields).alias("order")).select(
        "order.*"
    )
'''

_AGGREGATE: Final = """\
-- Revenue per minute and category. The result of a minute is written once an order arrives that is
-- 10 minutes later.
CREATE TEMPORARY VIEW revenue AS
SELECT window.start AS minute, category, count(*) AS orders, sum(cents) AS cents
FROM STREAM(orders) WATERMARK time DELAY OF INTERVAL 10 MINUTES
GROUP BY window(time, '1 minute'), category;
"""

_WRITE: Final = '''\
"""The output: each result once, to topic {target}."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, struct, to_json

spark = SparkSession.active()

dp.create_sink(
    "{table}",
    "barnabas",
    {{
        "kafka.bootstrap.servers": spark.conf.get("barnabas.bootstrap"),
        "topic": "{target}",
        "exactlyOnce": "true",
    }},
)


@dp.append_flow(target="{table}")
def publish() -> DataFrame:
    revenue = spark.readStream.table("revenue")
    return revenue.select(col("category").alias("key"), to_json(struct("*")).alias("value"))
'''

_README: Final = """\
# {name}

Reads topic `{source}` and writes the revenue per minute and category to topic `{target}`.

    barnabas topics create {source} --partitions 3
    barnabas topics create {target}
    barnabas produce {source} < sample.jsonl
    barnabas pipeline run
    barnabas consume {target}

`barnabas pipeline run --continuous` keeps it running. Edit the files in `transformations`: Python
and SQL, with any flows and tables. The state of the pipeline is in `storage`.
"""

_SAMPLE: Final = '{{"time": "2026-01-01T{hour:02}:{minute:02}:00Z", "category": "{category}", '


def files(name: str, source: str, target: str, storage: str, bootstrap: str) -> Mapping[str, str]:
    """The content of each file of the project, by path."""
    words = {
        "name": name,
        "source": source,
        "target": target,
        "storage": storage,
        "bootstrap": bootstrap,
        "table": "results",
    }
    return {
        "spark-pipeline.yml": SPEC.format(**words),
        "transformations/read.py": _READ.format(**words),
        "transformations/revenue.sql": _AGGREGATE.format(**words),
        "transformations/write.py": _WRITE.format(**words),
        "README.md": _README.format(**words),
        "sample.jsonl": "".join(_sample()),
    }


def _sample() -> list[str]:
    """Two hours of orders, one per minute."""
    lines = []
    for number in range(120):
        category = ("books", "games", "tools")[number % 3]
        when = _SAMPLE.format(hour=number // 60, minute=number % 60, category=category)
        lines.append(f'{when}"cents": {100 + number}}}\n')
    return lines
