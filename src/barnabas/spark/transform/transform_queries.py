"""A topic through SQL into a topic, and what cannot be taken into a dead-letter topic.

Two queries read the topic, each with a checkpoint of its own: one hands the records that can be
taken to the SQL, the other the rest, with the reason, to the dead letters. Which it is, one
expression decides, so a record is in exactly one of the two.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.cli.exit_codes import CommandFailed, Misused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CORRUPT: Final = "_corrupt"
_RECORD: Final = ("key", "topic", "partition", "offset", "timestamp", "headers")
_HEADER: Final = "barnabas.dead-letter."


class Transforming(NamedTuple):
    """What is to become of which topic; without `schema` the SQL gets the records as they are."""

    source: str
    target: str
    sql: str
    options: Mapping[str, str]  # of the data source and sink: where the brokers are
    schema: str | None = None
    expectations: tuple[str, ...] = ()
    watermark: tuple[str, str] | None = None  # a column, and how late it may be
    key: str | None = None
    dead_letters: str | None = None
    output_mode: str = "append"
    starting: str = "earliest"
    batch_records: int | None = None

    @property
    def view(self) -> str:
        """What the SQL calls the topic: its name, with _ for what is not in names of SQL."""
        name = re.sub(r"\W", "_", self.source, flags=re.ASCII)
        return f"_{name}" if name[:1].isdigit() else name


def records(spark: "SparkSession", wanted: Transforming) -> "DataFrame":
    """The topic as a stream: its columns, `data` by the schema, and `reason` if it is bad."""
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


def _reason(wanted: Transforming, fields: list[str]) -> str:
    """An expression: why a record is bad, or null."""
    cases = []
    if wanted.schema is not None:
        cases = [
            ("value IS NULL", "it has no value"),
            ("NOT is_valid_utf8(string(value))", "its value is no UTF-8 text"),
            (f"data IS NULL OR data.{_CORRUPT} IS NOT NULL", "its value is no JSON of the schema"),
        ]
    for expectation in wanted.expectations:
        cases.append((f"NOT coalesce(({expectation}), false)", f"it fails: {expectation}"))
    whens = [f"WHEN {condition} THEN {_quoted(reason)}" for condition, reason in cases]
    return f"CASE {' '.join(whens)} END" if whens else "string(NULL)"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def results(spark: "SparkSession", rows: "DataFrame", wanted: Transforming) -> "DataFrame":
    """What the SQL makes of the good records, as records: the columns that a topic takes.

    A result with a column `value` is taken as it is; of any other a row becomes JSON.

    Raises  Misused if a column that was named is not there
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
        raise Misused(f"{option} {column}: there is no such column, only {', '.join(rows.columns)}")


def dead_letters(rows: "DataFrame") -> "DataFrame":
    """The bad records as they were, and in headers the reason and where they came from."""
    from pyspark.sql import functions as f

    told = {
        "reason": "reason",
        "topic": "topic",
        "partition": "string(partition)",
        "offset": "string(offset)",
        "timestamp": "string(unix_millis(timestamp))",
    }
    headers = ", ".join(
        f"struct('{_HEADER}{name}' AS key, cast({text} AS BINARY) AS value)"
        for name, text in told.items()
    )
    own = "coalesce(headers, cast(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>))"
    joined = f.expr(f"concat({own}, array({headers}))").alias("headers")
    return rows.where("reason IS NOT NULL").select("key", "value", joined)


def check_streaming(made: "DataFrame", wanted: Transforming) -> None:
    """Raises CommandFailed if the SQL does not read the topic, so that it would never end."""
    if not made.isStreaming:
        raise CommandFailed(f"the SQL does not read {wanted.view}, which is topic {wanted.source}")
