"""The columns of a DataFrame that become records, validated once and read batch by batch.

They are the columns of Spark's Kafka sink: `value`, and optionally `key`, `topic`, `headers` and
`partition`. A column `timestamp` becomes the timestamp of the records, so that records read from a
topic keep theirs. Other columns are ignored, as by Spark's sink.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.types import StructType

from barnabas.spark.sink.record_encoder import Arrow, header_section
from barnabas.spark.user_errors import WrongOption

if TYPE_CHECKING:
    from barnabas.spark.sink.value_encoder import ValueEncoder

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
    """The columns of the rows for one topic, as the encoder wants them; None if absent."""

    values: Arrow
    keys: Arrow | None
    timestamps_us: Arrow | None
    partitions: Arrow | None
    headers: Arrow | None


class SinkColumns(NamedTuple):
    """The columns from which the parts of a record come."""

    topic: str | None  # of all rows; the column topic is ignored then
    names: tuple[str, ...]
    encoder: "ValueEncoder | None" = None  # of values that are structs

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> "SinkColumns":
        """Raises WrongOption if a column is missing or has an unsupported type."""
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        if "value" not in types:
            raise WrongOption(f"the column value is missing; the columns are {', '.join(types)}")
        if topic is None and "topic" not in types:
            raise WrongOption("no topic to write to: set the option topic, or add a column topic")
        for name, allowed in _TYPES.items():
            if name in types and types[name] not in allowed:
                raise WrongOption(
                    f"column {name} has type {types[name]} but must be {' or '.join(allowed)}"
                )
        names = [name for name in _TYPES if name in types and (name != "topic" or topic is None)]
        if types.get("timestamp") == "timestamp":
            names.append("timestamp")
        return cls(topic, tuple(names))

    def by_topic(self, batch: ArrowBatch) -> Iterator[tuple[str, Rows]]:
        """Yield the rows of each topic in order. Raises WrongOption if a topic is null."""
        if self.topic is not None:
            yield self.topic, self._rows(batch)
            return
        compute: Any = import_module("pyarrow.compute")
        topics = batch.column(batch.schema.get_field_index("topic"))
        if topics.null_count:
            raise WrongOption(
                "a row has no topic: its column topic is null, and the option topic is not set"
            )
        for topic in topics.unique().to_pylist():
            yield topic, self._rows(batch.filter(compute.equal(topics, topic)))

    def _rows(self, batch: ArrowBatch) -> Rows:
        return Rows(
            self._values(batch),
            self._column(batch, "key", "binary"),
            self._column(batch, "timestamp", "int64"),
            self._column(batch, "partition", "int32"),
            self._headers(batch),
        )

    def _values(self, batch: ArrowBatch) -> Arrow | None:
        if self.encoder is None:
            return self._column(batch, "value", "binary")
        encoded: Arrow = self.encoder.encode(batch.column(batch.schema.get_field_index("value")))
        return encoded

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
