"""Values in the Confluent wire format: a zero byte, the schema's id, then the encoded value."""

import io
import struct
from datetime import time
from importlib import import_module
from typing import Any, Final
from uuid import UUID

from barnabas.spark.source.json_values import JsonDecoder
from barnabas.spark.source.registry_client import RegisteredSchema, RegistryClient
from barnabas.spark.source.registry_schemas import KINDS
from barnabas.spark.user_errors import SparkFailure

HEADER: Final = struct.Struct(">bI")
BAD_VALUE: Final = (ValueError, LookupError, TypeError, EOFError, ArithmeticError)


class RegistryDecoder:
    """Decodes values by the schemas that they name; they may be of several versions."""

    def __init__(self, url: str, format: str, spark_type: Any) -> None:
        from pyspark.sql.pandas.types import to_arrow_type

        self._client = RegistryClient(url)
        self._format = format
        self._type = to_arrow_type(spark_type, timezone="UTC")
        self._json = JsonDecoder(spark_type) if format == "json" else None
        self._avro: dict[int, Any] = {}

    def decode(self, values: Any) -> tuple[Any, dict[int, str]]:
        pa: Any = import_module("pyarrow")
        bad: dict[int, str] = {}
        found: list[Any] = []
        for row, value in enumerate(values.to_pylist()):
            try:
                found.append(None if value is None else self._one(value))
            except BAD_VALUE as error:
                bad[row] = _reason(error)
                found.append(None)
        if self._json is not None:
            decoded, more = self._json.decode(pa.array(found, pa.binary()))
            return decoded, {**more, **bad}
        return struct_array(found, self._type, bad), bad

    def _one(self, value: bytes) -> Any:
        """Raises ValueError for a bad value, SparkFailure if the registry fails."""
        if len(value) < HEADER.size or value[0] != 0:
            raise ValueError("it does not begin with the id of a schema")
        _, number = HEADER.unpack_from(value)
        schema = self._client.find_schema(number)
        if schema is None:
            raise ValueError(f"the registry has no schema {number}")
        if schema.kind != KINDS[self._format]:
            raise ValueError(f"its schema {number} is of type {schema.kind}")
        payload = value[HEADER.size :]
        if self._format == "json":
            return payload
        if self._format == "protobuf":
            from barnabas.spark.source.protobuf_values import read_message

            return read_message(payload, schema)
        return self._read_avro(payload, number, schema)

    def _read_avro(self, payload: bytes, number: int, schema: RegisteredSchema) -> Any:
        fastavro: Any = import_module("fastavro")
        if number not in self._avro:
            import json

            named: dict[str, Any] = {}
            for each in schema.references.values():
                fastavro.parse_schema(json.loads(each.text), named)
            self._avro[number] = fastavro.parse_schema(json.loads(schema.text), named)
        return plain(fastavro.schemaless_reader(io.BytesIO(payload), self._avro[number], None))


def plain(value: Any) -> Any:
    """A decoded Avro value as Arrow takes it."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, UUID | time) else value


def struct_array(found: list[Any], kind: Any, bad: dict[int, str]) -> Any:
    """The rows as an Arrow struct array; a row that does not fit gets null, and a reason."""
    pa: Any = import_module("pyarrow")
    try:
        return pa.array(found, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError):
        for row, each in enumerate(found):
            try:
                pa.array([each], kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
                bad[row] = _reason(error)
        return pa.array([None if row in bad else each for row, each in enumerate(found)], kind)


def _reason(error: BaseException) -> str:
    if isinstance(error, SparkFailure):
        return str(error)
    lines = str(error).splitlines() or [type(error).__name__]
    return f"the value does not fit the schema: {lines[0]}"
