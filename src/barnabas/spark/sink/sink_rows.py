"""The columns of a DataFrame that become records: found and checked once, read batch by batch.

They are those of Spark's Kafka sink: `value`, and if they are there `key`, `topic`, `headers` and
`partition`; of Kafka's types only. A `timestamp` column becomes the records' time, so that what was
read from a topic keeps its own. Other columns are left alone, as Spark's sink leaves them.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple

from pyspark.sql.types import StructType

from barnabas.spark.sink.record_encoder import Arrow, header_section
from barnabas.spark.user_errors import WrongOption

_TEXT_OR_BYTES: Final = ("string", "binary")
_TYPES: Final = {
    "topic": ("string",),
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}

ArrowBatch = Any  # pyarrow has no types


class Rows(NamedTuple):
    """The columns of rows for one topic, as an encoder takes them; None for what is not there."""

    values: Arrow
    keys: Arrow | None
    timestamps_us: Arrow | None
    partitions: Arrow | None
    headers: Arrow | None


class Columns(NamedTuple):
    """Where each part of a record comes from."""

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

    def by_topic(self, batch: ArrowBatch) -> Iterator[tuple[str, Rows]]:
        """The rows of each topic, in order. Raises WrongOption at a row whose topic is null."""
        if self.topic is not None:
            yield self.topic, self._rows(batch)
            return
        compute: Any = import_module("pyarrow.compute")
        topics = batch.column(batch.schema.get_field_index("topic"))
        if topics.null_count:
            raise WrongOption(
                "a row has no topic: its column topic is null, and no option topic is given"
            )
        for topic in topics.unique().to_pylist():
            yield topic, self._rows(batch.filter(compute.equal(topics, topic)))

    def _rows(self, batch: ArrowBatch) -> Rows:
        return Rows(
            self._column(batch, "value", "binary"),
            self._column(batch, "key", "binary"),
            self._column(batch, "timestamp", "int64"),
            self._column(batch, "partition", "int32"),
            self._headers(batch),
        )

    def _column(self, batch: ArrowBatch, name: str, kind: str) -> Arrow | None:
        if name not in self.names:
            return None
        return batch.column(batch.schema.get_field_index(name)).cast(kind)

    def _headers(self, batch: ArrowBatch) -> Arrow | None:
        if "headers" not in self.names:
            return None
        pa: Any = import_module("pyarrow")
        listed = batch.column(batch.schema.get_field_index("headers")).to_pylist()
        return pa.array(map(_section, listed), pa.binary())


def _section(headers: list[dict[str, Any]] | None) -> bytes | None:
    if not headers:
        return None
    return header_section((header["key"], header["value"]) for header in headers)
