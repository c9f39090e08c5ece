"""Encoded values: a struct column `value` to Avro, Protobuf or JSON with a registered schema.

The schema is derived from the column's type and registered under the topic's subject before tasks
start. Each value begins with a zero byte and the schema's id, as Confluent's serializers write it.
"""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

from barnabas.spark.source.avro_values import avro_schema
from barnabas.spark.source.registry_client import RegisteredSchema, RegistryClient
from barnabas.spark.source.registry_schemas import KINDS
from barnabas.spark.source.registry_values import HEADER
from barnabas.spark.user_errors import WrongOption

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
        if kind not in KINDS:
            raise WrongOption(
                f"option value.format is {kind!r} but a write supports {', '.join(KINDS)}"
            )
        if url is None:
            raise WrongOption("a write with value.format needs the option schema.registry.url")
        if topic is None:
            raise WrongOption("a write with value.format needs the option topic")
        if struct is None or struct.typeName() != "struct":
            raise WrongOption("a write with value.format needs a struct as the column value")
        subject = given.get("value.subject") or f"{topic}-value"
        text = _schema(kind, struct, subject)
        return cls(kind, text, RegistryClient(url).register(subject, KINDS[kind], text))

    def encode(self, values: Any) -> Any:
        """The binary values of an Arrow struct array; null stays null."""
        pa: Any = import_module("pyarrow")
        payload, head = self._payloads(), HEADER.pack(0, self.id)
        found = [None if each is None else head + payload(each) for each in values.to_pylist()]
        return pa.array(found, pa.binary())

    def _payloads(self) -> Callable[[Any], bytes]:
        if self.format == "json":
            return lambda value: json.dumps(value, default=_plain).encode()
        if self.format == "protobuf":
            from barnabas.spark.sink.protobuf_messages import MessageWriter
            from barnabas.spark.source.protobuf_values import root_message

            registered = RegisteredSchema(KINDS[self.format], self.schema)
            return MessageWriter(root_message(registered, [0])).payload
        fastavro: Any = import_module("fastavro")
        schema = fastavro.parse_schema(json.loads(self.schema))

        def avro(value: Any) -> bytes:
            data = io.BytesIO()
            fastavro.schemaless_writer(data, schema, value)
            return data.getvalue()

        return avro


def _schema(kind: str, struct: Any, subject: str) -> str:
    if kind == "protobuf":
        from barnabas.spark.sink.protobuf_messages import protobuf_schema

        return protobuf_schema(struct, subject)
    return json.dumps(avro_schema(struct) if kind == "avro" else json_schema(struct))


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
