"""Decoded values: the column `value` as a struct, by the options value.format and value.schema.

Values that cannot be decoded fail the query, become null, or are kept beside the reason, by the
option value.errors. A record without a value has a null struct and is not an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

from barnabas.spark.user_errors import SparkFailure, WrongOption

FORMATS: Final = ("raw", "json", "avro", "protobuf")
_ERRORS: Final = ("fail", "null", "keep")
_LONGEST_REASON: Final = 300
KEPT: Final = ", rawValue binary, valueError string"

Array = Any  # pyarrow has no types


class ValueDecoder(Protocol):
    """Decodes binary values to a struct array, with the reasons by row of those it cannot."""

    def decode(self, values: Array) -> tuple[Array, dict[int, str]]: ...


@dataclass(frozen=True)
class ValueOptions:
    """How values are decoded; `schema` is Spark's DDL of the fields."""

    format: str
    schema: str | None
    errors: str
    registry: str | None
    subject: str | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "ValueOptions | None":
        """None if values stay binary. Raises WrongOption for an invalid option."""
        given = {name.lower(): value for name, value in options.items()}
        kind = given.get("value.format", "raw").lower()
        if kind not in FORMATS:
            raise WrongOption(
                f"option value.format is {kind!r} but must be one of {', '.join(FORMATS)}"
            )
        if kind == "raw":
            return None
        errors = given.get("value.errors", "fail").lower()
        if errors not in _ERRORS:
            raise WrongOption(
                f"option value.errors is {errors!r} but must be one of {', '.join(_ERRORS)}"
            )
        schema, registry = given.get("value.schema"), given.get("schema.registry.url")
        if schema is None and registry is None:
            raise WrongOption(
                f"value.format {kind} needs the option value.schema, such as 'id BIGINT, name"
                " STRING', or schema.registry.url"
            )
        if kind == "protobuf" and registry is None:
            raise WrongOption("value.format protobuf needs the option schema.registry.url")
        subject = given.get("value.subject") or _subject(given)
        return cls(kind, schema, errors, registry, subject)

    def columns(self) -> tuple[str, str]:
        """The DDL of the column value, and of the columns that follow all others."""
        schema = self.schema if self.schema is not None else self._registered()
        return f"value struct<{schema}>", KEPT if self.errors == "keep" else ""

    def _registered(self) -> str:
        from barnabas.spark.source.registry_schemas import registered_ddl

        assert self.registry is not None
        if self.subject is None:
            raise WrongOption(
                "set the option value.subject: only a query of one topic knows its subject"
            )
        return registered_ddl(self.registry, self.subject, self.format)

    def decoder(self, struct: Any) -> ValueDecoder:
        """The decoder to a struct of Spark's type `struct`. Raises WrongOption."""
        if self.registry is not None:
            from barnabas.spark.source.registry_values import RegistryDecoder

            return RegistryDecoder(self.registry, self.format, struct)
        if self.format == "json":
            from barnabas.spark.source.json_values import JsonDecoder

            return JsonDecoder(struct)
        from barnabas.spark.source.avro_values import PlainAvroDecoder

        return PlainAvroDecoder(struct)


def _subject(given: Mapping[str, str]) -> str | None:
    topic = given.get("subscribe") or given.get("topic")
    if topic is None and (text := given.get("assign")):
        import json

        try:
            topics = list(json.loads(text))
        except ValueError:
            return None
        topic = topics[0] if len(topics) == 1 else None
    return f"{topic}-value" if topic and "," not in topic else None


class DecodedBatches:
    """Record batches with the column value decoded."""

    def __init__(self, options: ValueOptions, schema: Any, struct: Any) -> None:
        """`schema` is the Arrow schema of the result, `struct` Spark's type of the values."""
        self._errors = options.errors
        self._schema = schema
        self._decoder = options.decoder(struct)

    def decoded(self, batch: Any) -> Any:
        """Raises SparkFailure if a value cannot be decoded and value.errors is `fail`."""
        pa: Any = import_module("pyarrow")
        place = batch.schema.get_field_index("value")
        values, found = self._decoder.decode(batch.column(place))
        # A reason may quote the value, which may be as large as a record.
        bad = {row: reason[:_LONGEST_REASON] for row, reason in found.items()}
        if bad and self._errors == "fail":
            row, reason = min(bad.items())
            offset = batch.column(batch.schema.get_field_index("offset"))[row].as_py()
            raise SparkFailure(
                f"the value at offset {offset} cannot be decoded: {reason}; set value.errors to"
                " null or keep to read on"
            )
        columns = list(batch.columns)
        columns[place] = values.cast(self._schema.field("value").type)
        if self._errors == "keep":
            raw = batch.column(place)
            reasons = [bad.get(row) for row in range(len(raw))] if bad else None
            columns.append(_only(raw, bad))
            columns.append(pa.array(reasons, pa.string()) if bad else pa.nulls(len(raw), "string"))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _only(raw: Array, bad: Mapping[int, str]) -> Array:
    """The raw values of the bad rows; null in the others, which need them no more."""
    pa: Any = import_module("pyarrow")
    if not bad:
        return pa.nulls(len(raw), pa.binary())
    return pa.array([raw[n].as_py() if n in bad else None for n in range(len(raw))], pa.binary())
