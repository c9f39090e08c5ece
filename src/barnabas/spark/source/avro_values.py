"""Avro values without a registry: the writer's schema is derived from the option value.schema."""

import io
from importlib import import_module
from typing import Any, Final

from barnabas.spark.source.registry_values import BAD_VALUE, plain, struct_array
from barnabas.spark.user_errors import WrongOption

_TYPES: Final = {
    "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "bigint": "long",
    "float": "float", "double": "double", "string": "string", "binary": "bytes",
}  # fmt: skip
_LOGICAL: Final = {
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "date": {"type": "int", "logicalType": "date"},
}


def avro_schema(struct: Any, name: str = "value") -> dict[str, Any]:
    """The Avro record of a Spark struct, as Spark's own `to_avro` writes it: all are nullable."""
    fields = [
        {"name": each.name, "type": ["null", _type(each.dataType, f"{name}_{each.name}")],
         "default": None}
        for each in struct.fields
    ]  # fmt: skip
    return {"type": "record", "name": name, "fields": fields}


def _type(kind: Any, name: str) -> Any:
    text = kind.simpleString()
    if text in _TYPES:
        return _TYPES[text]
    if text in _LOGICAL:
        return _LOGICAL[text]
    if kind.typeName() == "decimal":
        scale = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **scale}
    if kind.typeName() == "struct":
        return avro_schema(kind, name)
    if kind.typeName() == "array":
        return {"type": "array", "items": ["null", _type(kind.elementType, name)]}
    if kind.typeName() == "map" and kind.keyType.simpleString() == "string":
        return {"type": "map", "values": ["null", _type(kind.valueType, name)]}
    raise WrongOption(f"{name}: Avro has no type for {text}")


class PlainAvroDecoder:
    """Decodes values that are Avro and nothing else, by the schema of the struct."""

    def __init__(self, spark_type: Any) -> None:
        from pyspark.sql.pandas.types import to_arrow_type

        fastavro: Any = import_module("fastavro")
        self._schema = fastavro.parse_schema(avro_schema(spark_type))
        self._type = to_arrow_type(spark_type, timezone="UTC")

    def decode(self, values: Any) -> tuple[Any, dict[int, str]]:
        fastavro: Any = import_module("fastavro")
        bad: dict[int, str] = {}
        found: list[Any] = []
        for row, value in enumerate(values.to_pylist()):
            try:
                data = io.BytesIO(value or b"")
                decoded = value and plain(fastavro.schemaless_reader(data, self._schema, None))
                if value is not None and data.read(1):
                    raise ValueError("bytes are left after the record")
                found.append(decoded)
            except BAD_VALUE as error:
                bad[row] = f"the value is not Avro of the schema: {error}"
                found.append(None)
        return struct_array(found, self._type, bad), bad
