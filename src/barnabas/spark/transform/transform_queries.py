"""The queries of a transformation: SQL over a topic, and bad records to a dead-letter topic.

Two queries read the topic, each with its own checkpoint. One passes the valid records to the SQL,
the other writes the bad records, with the reason, to the dead-letter topic. The same expression
selects them in both, so each record goes to exactly one of the two.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.cli.exit_codes import CommandFailed, Misused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CORRUPT: Final = "_corrupt"
_RECORD: Final = ("key", "topic", "partition", "offset", "timestamp", "headers")


class TransformSpec(NamedTuple):
    """A transformation as the user described it; without `schema` the SQL sees raw records."""

    source: str
    target: str
    sql: str
    options: Mapping[str, str]  # of the data source and sink
    schema: str | None = None
    expectations: tuple[str, ...] = ()
    watermark: tuple[str, str] | None = None  # a column, and its allowed lateness
    key: str | None = None
    dead_letters: str | None = None
    output_mode: str = "append"
    starting: str = "earliest"
    batch_records: int | None = None

    @property
    def view(self) -> str:
        """The table of the topic in SQL: its name, with _ for what SQL does not allow."""
        name = re.sub(r"\W", "_", self.source, flags=re.ASCII)
        return f"_{name}" if name[:1].isdigit() else name


def records(spark: "SparkSession", wanted: TransformSpec) -> "DataFrame":
    """The topic as a stream: its columns, `data` by the schema, and a `reason` if it is bad."""
    from pyspark.sql import functions as f

    reader = (
        spark.readStream.format("barnabas")
        .options(**wanted.options)
        .option("subscribe", wanted.source)
        .option("startingOffsets", wanted.starting)
        .option("includeHeaders", "true")
    )
    if wanted.batch_records is not None:
        reader = reader.option("maxOffsetsPerTrigger", wanted.batch_records)
    rows = reader.load()
    if wanted.schema is None:
        return rows.withColumn("reason", f.expr(_reason(wanted, [])))
    text = f.col("value").cast("string")
    schema = f"{wanted.schema}, {_CORRUPT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    rows = rows.withColumn("data", f.from_json(text, schema, options))
    fields = [name for name in _fields(rows) if name != _CORRUPT]
    bare = rows.select("*", *[f.col(f"data.`{name}`").alias(name) for name in _new(rows, fields)])
    judged = bare.withColumn("reason", f.expr(_reason(wanted, fields)))
    return judged.select(*rows.columns, "reason")


def _fields(rows: "DataFrame") -> list[str]:
    found: Any = rows.schema["data"].dataType
    return list(found.names)


def _new(rows: "DataFrame", fields: list[str]) -> list[str]:
    return [name for name in fields if name not in rows.columns]


def _reason(wanted: TransformSpec, fields: list[str]) -> str:
    """An SQL expression for the reason why a record is bad, or null."""
    cases = []
    if wanted.schema is not None:
        cases = [
            ("value IS NULL", "no value"),
            ("NOT is_valid_utf8(string(value))", "value is not UTF-8"),
            (f"data IS NULL OR data.{_CORRUPT} IS NOT NULL", "value is not JSON of the schema"),
        ]
    for expectation in wanted.expectations:
        cases.append(
            (f"NOT coalesce(({expectation}), false)", f"failed expectation: {expectation}")
        )
    whens = [f"WHEN {condition} THEN {_quoted(reason)}" for condition, reason in cases]
    return f"CASE {' '.join(whens)} END" if whens else "string(NULL)"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def results(spark: "SparkSession", rows: "DataFrame", wanted: TransformSpec) -> "DataFrame":
    """The result of the SQL over the valid records, as columns of the sink.

    A result with a column `value` is written unchanged; any other row becomes JSON.

    Raises  Misused if an option names a column that does not exist
    """
    from pyspark.sql import functions as f

    good = rows.where("reason IS NULL").drop("reason")
    if wanted.schema is not None:
        fields = [name for name in _fields(rows) if name != _CORRUPT]
        kept = [name for name in _RECORD if name not in fields]
        good = good.select(*[f.col(f"data.`{name}`").alias(name) for name in fields], *kept)
    if wanted.watermark is not None:
        column, delay = wanted.watermark
        _check_column(good, column, "--watermark")
        good = good.withWatermark(column, delay)
    good.createOrReplaceTempView(wanted.view)
    made = spark.sql(wanted.sql)
    if "value" in made.columns:
        return made
    key = wanted.key or ("key" if "key" in made.columns else None)
    if wanted.key is not None:
        _check_column(made, wanted.key, "--key")
    inside = [name for name in made.columns if name != "key"]
    value = f.to_json(f.struct(*[f.col(f"`{name}`") for name in inside])).alias("value")
    keys = [] if key is None else [f.col(f"`{key}`").cast(_key_type(made, key)).alias("key")]
    return made.select(*keys, value)


def _key_type(made: "DataFrame", key: str) -> str:
    return "binary" if made.schema[key].dataType.simpleString() == "binary" else "string"


def _check_column(rows: "DataFrame", column: str, option: str) -> None:
    if column not in rows.columns:
        raise Misused(
            f"{option} {column}: no such column; the columns are {', '.join(rows.columns)}"
        )


def check_streaming(made: "DataFrame", wanted: TransformSpec) -> None:
    """Raises CommandFailed if the SQL does not read the topic."""
    if not made.isStreaming:
        raise CommandFailed(
            f"the SQL does not read the table {wanted.view} of topic {wanted.source}"
        )
