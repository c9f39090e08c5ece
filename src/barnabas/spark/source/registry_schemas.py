"""Registered schemas as Spark's: the fields of all versions of a subject, none lost."""

import json
from collections.abc import Mapping
from functools import reduce
from typing import Any, Final
from urllib.parse import unquote

from barnabas.spark.source.registry_client import RegisteredSchema, RegistryClient
from barnabas.spark.source.value_types import Array, Map, Struct, ValueType, fields_ddl, merge
from barnabas.spark.user_errors import SparkFailure

Names = tuple[str, ...]

_AVRO: Final = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bytes": "BINARY", "fixed": "BINARY", "string": "STRING", "enum": "STRING",
}  # fmt: skip
_LOGICAL: Final = {
    "timestamp-millis": "TIMESTAMP", "timestamp-micros": "TIMESTAMP", "date": "DATE",
    "local-timestamp-millis": "TIMESTAMP_NTZ", "local-timestamp-micros": "TIMESTAMP_NTZ",
    "uuid": "STRING", "time-millis": "STRING", "time-micros": "STRING",
}  # fmt: skip
_JSON: Final = {
    "integer": "BIGINT", "number": "DOUBLE", "string": "STRING", "boolean": "BOOLEAN",
}  # fmt: skip
_TEXTS: Final = {"date-time": "TIMESTAMP", "date": "DATE"}
KINDS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}


def registered_ddl(url: str, subject: str, format: str) -> str:
    """The fields of all versions of a subject, as columns in SQL.

    Raises  SparkFailure if the subject is unknown, of another format, or not an object
    """
    versions = RegistryClient(url).versions(subject)
    for each in versions:
        if each.kind != KINDS[format]:
            raise SparkFailure(
                f"subject {subject} has a schema of type {each.kind}, not {KINDS[format]}; set"
                " value.format to match"
            )
    merged = reduce(merge, map(value_type, versions))
    if not isinstance(merged, Struct):
        raise SparkFailure(f"the schema of {subject} is no record with fields")
    return fields_ddl(merged)


def value_type(schema: RegisteredSchema) -> ValueType:
    """Raises SparkFailure if the schema cannot be Spark's."""
    if schema.kind == "PROTOBUF":
        from barnabas.spark.source.protobuf_values import message_type, root_message

        try:
            root = root_message(schema, (0,))
        except ValueError as error:
            raise SparkFailure(str(error)) from None
        return message_type(root)
    try:
        parsed = json.loads(schema.text)
    except ValueError as error:
        raise SparkFailure(f"a registered schema is not JSON: {error}") from None
    return avro_type(parsed, {}) if schema.kind == "AVRO" else json_type(parsed)


def avro_type(schema: Any, named: dict[str, Any]) -> ValueType:
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise SparkFailure(f"a union of {len(kinds)} types has no type in Spark: {schema}")
        return avro_type(kinds[0], named)
    if isinstance(schema, str):
        return _AVRO[schema] if schema in _AVRO else avro_type(_named(schema, named), named)
    kind = schema["type"]
    if kind in ("enum", "fixed"):
        named[schema["name"]] = named[_full_name(schema)] = schema
    if logical := _logical(schema):
        return logical
    if kind == "record":
        names = (schema["name"], _full_name(schema))
        named.update(dict.fromkeys(names))  # until its fields are known
        fields = {each["name"]: avro_type(each["type"], named) for each in schema["fields"]}
        named.update(dict.fromkeys(names, schema))
        return Struct(fields)
    if kind == "array":
        return Array(avro_type(schema["items"], named))
    if kind == "map":
        return Map(avro_type(schema["values"], named))
    return _AVRO[kind] if isinstance(kind, str) and kind in _AVRO else avro_type(kind, named)


def _named(name: str, named: Mapping[str, Any]) -> Any:
    short = name.rpartition(".")[2]
    found = named.get(name, named.get(short))
    if found is None:
        if name in named or short in named:
            raise SparkFailure(f"record {name} contains itself; no type in Spark does")
        raise SparkFailure(f"the Avro schema names an unknown type {name}")
    return found


def _full_name(schema: Mapping[str, Any]) -> str:
    space = schema.get("namespace")
    return f"{space}.{schema['name']}" if space else str(schema["name"])


def _logical(schema: Mapping[str, Any]) -> str | None:
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({schema['precision']}, {schema.get('scale', 0)})"
    return _LOGICAL.get(str(logical))


def json_type(schema: Mapping[str, Any], root: Any = None, within: Names = ()) -> ValueType:
    """The type of a JSON Schema; what it leaves open is text.

    Raises  SparkFailure if a definition contains itself
    """
    root = schema if root is None else root
    if isinstance(name := schema.get("$ref"), str) and name.startswith("#"):
        if name in within:
            raise SparkFailure(f"definition {name} contains itself; no type in Spark does")
        return json_type(_definition(root, name), root, (*within, name))
    for choice in ("oneOf", "anyOf"):
        kinds = [each for each in schema.get(choice, ()) if each.get("type") != "null"]
        if len(kinds) == 1:
            return json_type(kinds[0], root, within)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), None)
    if kind == "object" or "properties" in schema:
        fields = schema.get("properties", {})
        return Struct({name: json_type(each, root, within) for name, each in fields.items()})
    if kind == "array":
        return Array(json_type(schema.get("items", {}), root, within))
    if kind == "string":
        return _TEXTS.get(str(schema.get("format")), "STRING")
    return _JSON.get(str(kind), "STRING")


def _definition(root: Any, name: str) -> Mapping[str, Any]:
    """The schema that a reference within a JSON Schema names, such as `#/$defs/item`."""
    found = root
    for part in name.removeprefix("#").strip("/").split("/"):
        if part:
            found = found.get(unquote(part).replace("~1", "/").replace("~0", "~"), {})
    assert isinstance(found, Mapping)
    return found
