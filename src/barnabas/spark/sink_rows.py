"""The columns of a DataFrame that become records: found and checked once, read batch by batch.

They are those of Spark's Kafka sink: `value`, and if they are there `key`, `topic`, `headers` and
`partition`; of Kafka's types only. A `timestamp` column becomes the records' time, so that what was
read from a topic keeps its own. Other columns are left alone, as Spark's sink leaves them.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql.types import StructType

from barnabas.spark.failures import WrongOption

_TEXT_OR_BYTES: Final = ("string", "binary")
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final = {
    "topic": ("string",),
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "headers": (_HEADERS,),
    "partition": ("int",),
}

ArrowBatch = Any  # pyarrow has no types
Headers = list[tuple[str, bytes | None]]


class Row(NamedTuple):
    """One record to be, as a client wants it; None stands for null."""

    topic: str
    partition: int | None
    timestamp_ms: int | None
    key: bytes | str | None
    value: bytes | str | None
    headers: Headers | None


class Columns(NamedTuple):
    """Where each part of a record comes from; None for what the DataFrame does not have."""

    topic: str | None  # for all rows; then the column of that name is not looked at
    names: tuple[str, ...]

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> "Columns":
        """Raises WrongOption if a column is missing, or is of a type that no record can have."""
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        if "value" not in types:
            raise WrongOption(f"there is no column value to write, only {', '.join(types)}")
        if topic is None and "topic" not in types:
            raise WrongOption(
                "which topic to write to is not said: give the option topic or a column topic"
            )
        for name, allowed in _TYPES.items():
            if name in types and types[name] not in allowed:
                raise WrongOption(
                    f"column {name} is of type {types[name]}, must be {' or '.join(allowed)}"
                )
        names = [name for name in _TYPES if name in types and (name != "topic" or topic is None)]
        if types.get("timestamp") == "timestamp":
            names.append("timestamp")
        return cls(topic, tuple(names))

    def rows(self, batches: Iterable[ArrowBatch]) -> Iterator[Row]:
        """Raises WrongOption at a row whose topic is null."""
        for batch in batches:
            yield from zip_rows(self, batch)


def zip_rows(columns: Columns, batch: ArrowBatch) -> Iterator[Row]:
    nothing = [None] * batch.num_rows
    lists: dict[str, list[Any]] = {name: _values(batch, name) for name in columns.names}
    topics = [columns.topic] * batch.num_rows if columns.topic else lists["topic"]
    if None in topics:
        raise WrongOption(
            "a row has no topic: its column topic is null, and no option topic is given"
        )
    return map(
        Row,
        topics,
        lists.get("partition", nothing),
        lists.get("timestamp", nothing),
        lists.get("key", nothing),
        lists["value"],
        lists.get("headers", nothing),
    )


def _values(batch: ArrowBatch, name: str) -> list[Any]:
    column = batch.column(batch.schema.get_field_index(name))
    if name == "timestamp":
        return [None if us is None else us // 1000 for us in column.cast("int64").to_pylist()]
    if name == "headers":
        return [_headers(each) for each in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def _headers(listed: list[dict[str, Any]] | None) -> Headers | None:
    if listed is None:
        return None
    return [(header["key"], header["value"]) for header in listed]
