"""Encoded values: a struct column `value` to Avro or JSON with a registered schema.

The schema is derived from the column's type and registered under the topic's subject before tasks
start. Each value begins with a zero byte and the schema's id, as Confluent's serializers write it.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

from barnabas.spark.source.avro_values import avro_schema
from barnabas.spark.source.registry_client import RegistryClient
from barnabas.spark.source.registry_values import HEADER
from barnabas.spark.user_errors import WrongOption

_FORMATS: Final = ("avro", "json")
_JSON: Final = {
    "boolean": "boolean", "tinyint": "integer", "smallint": "integer", "int": "integer",
    "bigint": "integer", "float": "number", "double": "number",
}  # fmt: skip


@dataclass(frozen=True)
class ValueEncoder:
    """Encodes structs in one format, with the id of their schema."""

    format: str
    schema: str
    id: int

    @classmethod
    def of(cls, options: Mapping[str, str], struct: Any, topic: str | None) -> "ValueEncoder":
        """Register the schema of the struct. Raises WrongOption, SparkFailure."""
        given = {name.lower(): value for name, value in options.items()}
        kind, url = given["value.format"].lower(), given.get("schema.registry.url")
        if kind not in _FORMATS:
            raise WrongOption(
                f"option value.format is {kind!r} but a write supports {' and '.join(_FORMATS)}"
            )
        if url is None:
            raise WrongOption("a write with value.format needs the option schema.registry.url")
        if topic is None:
            raise WrongOption("a write with value.format needs the option topic")
        if struct is None or struct.typeName() != "struct":
            raise WrongOption("a write with value.format needs a struct as the column value")
        made = avro_schema(struct) if kind == "avro" else json_schema(struct)
        text = json.dumps(made)
        subject = given.get("value.subject") or f"{topic}-value"
        kinds = {"avro": "AVRO", "json": "JSON"}
        return cls(kind, text, RegistryClient(url).register(subject, kinds[kind], text))

    def encode(self, values: Any) -> Any:
        """The binary values of an Arrow struct array; null stays null."""
        pa: Any = import_module("pyarrow")
        fastavro: Any = import_module("fastavro")
        schema = fastavro.parse_schema(json.loads(self.schema)) if self.format == "avro" else None
        head = HEADER.pack(0, self.id)
        found: list[bytes | None] = []
        for value in values.to_pylist():
            if value is None:
                found.append(None)
            elif schema is None:
                found.append(head + json.dumps(value, default=_plain).encode())
            else:
                data = io.BytesIO()
                fastavro.schemaless_writer(data, schema, value)
                found.append(head + data.getvalue())
        return pa.array(found, pa.binary())


def _plain(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else str(value)


def json_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a Spark type; every field may be null."""
    text = kind.simpleString()
    if kind.typeName() == "struct":
        fields = {each.name: _nullable(json_schema(each.dataType)) for each in kind.fields}
        return {"type": "object", "properties": fields}
    if kind.typeName() == "array":
        return {"type": "array", "items": _nullable(json_schema(kind.elementType))}
    if kind.typeName() == "decimal":
        return {"type": "number"}
    if text in ("timestamp", "date"):
        return {"type": "string", "format": "date-time" if text == "timestamp" else "date"}
    return {"type": _JSON.get(text, "string")}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]}
