"""Compatibility of schemas: whether a reader's schema reads what a writer's schema wrote."""

import base64
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from barnabas.cli.registry.registry_state import RegistryError, Schema

_PROMOTED: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def check_valid(schema: Schema) -> None:
    """Raises RegistryError if the text is not a schema of its type."""
    try:
        invalid = _invalid()
    except ModuleNotFoundError as error:
        what = f"{error.name} is not installed: run pip install 'barnabas[spark]'"
        raise RegistryError(50001, what) from None
    try:
        _parse(schema)
    except invalid as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise RegistryError(42201, f"Invalid schema: {line}") from None


def _parse(schema: Schema) -> None:
    if schema.type == "PROTOBUF":
        _messages(schema)
    elif schema.type == "JSON":
        parsed = json.loads(schema.text)
        validators: Any = import_module("jsonschema.validators")
        validators.validator_for(parsed).check_schema(parsed)
    elif not schema.references:
        import_module("fastavro").parse_schema(json.loads(schema.text))


def _invalid() -> tuple[type[Exception], ...]:
    """The exceptions that the parsers of the schema types raise for an invalid schema."""
    return (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        import_module("fastavro.schema").SchemaParseException,
        import_module("jsonschema.exceptions").SchemaError,
        import_module("google.protobuf.message").DecodeError,
    )


def incompatibilities(new: Schema, old: Sequence[Schema], level: str) -> list[str]:
    """The reasons why `new` breaks the level; `old` are the versions so far, oldest first."""
    if level == "NONE" or not old:
        return []
    against = old if level.endswith("_TRANSITIVE") else old[-1:]
    found: list[str] = []
    for each in against:
        if each.type != new.type:
            found.append(f"the schema type changed from {each.type} to {new.type}")
            continue
        if level.startswith(("BACKWARD", "FULL")):
            found += _unreadable(new, each)
        if level.startswith(("FORWARD", "FULL")):
            found += _unreadable(each, new)
    return found


def _unreadable(reader: Schema, writer: Schema) -> list[str]:
    if reader.type == "AVRO":
        names: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        return _avro(json.loads(reader.text), json.loads(writer.text), "", names)
    if reader.type == "JSON":
        return _json(json.loads(reader.text), json.loads(writer.text), "")
    return _protobuf(_messages(reader), _messages(writer))


# -- Avro: schema resolution -------------------------------------------------


def _avro(
    reader: Any, writer: Any, at: str, names: tuple[dict[str, Any], dict[str, Any]]
) -> list[str]:
    reader, writer = _resolved(reader, names[0]), _resolved(writer, names[1])
    if isinstance(writer, list):
        return [reason for each in writer for reason in _avro(reader, each, at, names)]
    if isinstance(reader, list):
        if any(not _avro(each, writer, at, names) for each in reader):
            return []
        return [f"{at or '/'}: no branch of the union reads {_name(writer)}"]
    kind, wrote = _name(reader), _name(writer)
    if kind != wrote:
        if kind in _PROMOTED.get(wrote, ()):
            return []
        return [f"{at or '/'}: {wrote} cannot be read as {kind}"]
    if kind == "record":
        return _avro_record(reader, writer, at, names)
    if kind == "array":
        return _avro(reader["items"], writer["items"], f"{at}/items", names)
    if kind == "map":
        return _avro(reader["values"], writer["values"], f"{at}/values", names)
    if kind == "enum" and "default" not in reader:
        lost = [each for each in writer["symbols"] if each not in reader["symbols"]]
        return [f"{at}: the symbols {lost} are missing"] if lost else []
    if kind == "fixed" and reader["size"] != writer["size"]:
        return [f"{at}: the size changed"]
    return []


def _avro_record(
    reader: Any, writer: Any, at: str, names: tuple[dict[str, Any], dict[str, Any]]
) -> list[str]:
    wrote = {each["name"]: each for each in writer["fields"]}
    found = []
    for each in reader["fields"]:
        known = next((n for n in (each["name"], *each.get("aliases", ())) if n in wrote), None)
        where = f"{at}/{each['name']}"
        if known is not None:
            if each["type"] != wrote[known]["type"]:
                found += _avro(each["type"], wrote[known]["type"], where, names)
        elif "default" not in each:
            found.append(f"{where}: the field has no default and the old schema lacks it")
    return found


def _resolved(schema: Any, names: dict[str, Any]) -> Any:
    if isinstance(schema, dict):
        if "name" in schema:
            names[schema["name"]] = schema
        inner = schema["type"]
        return _resolved(inner, names) if isinstance(inner, dict | list) else schema
    return names.get(schema, schema) if isinstance(schema, str) else schema


def _name(schema: Any) -> str:
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


# -- JSON Schema: what the writer's documents may contain --------------------


def _json(reader: Mapping[str, Any], writer: Mapping[str, Any], at: str) -> list[str]:
    kinds, wrote = _kinds(reader), _kinds(writer)
    if kinds and not (wrote and wrote <= kinds | ({"integer"} if "number" in kinds else set())):
        return [f"{at or '/'}: {sorted(wrote) or 'any'} cannot be read as {sorted(kinds)}"]
    mine, theirs = reader.get("properties", {}), writer.get("properties", {})
    found = [
        f"{at}/{name}: the property became required"
        for name in reader.get("required", ())
        if name not in writer.get("required", ()) and "default" not in mine.get(name, {})
    ]
    for name, each in theirs.items():
        if name in mine:
            found += _json(mine[name], each, f"{at}/{name}")
        elif reader.get("additionalProperties") is False:
            found.append(f"{at}/{name}: the property is no longer allowed")
    if isinstance(reader.get("items"), dict) and isinstance(writer.get("items"), dict):
        found += _json(reader["items"], writer["items"], f"{at}/items")
    return found


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    kind = schema.get("type")
    return {kind} if isinstance(kind, str) else set(kind or ())


# -- Protobuf: field numbers keep their types --------------------------------

_VARINT: Final = {3, 4, 5, 8, 13, 14}  # int64, uint64, int32, bool, uint32, enum
_TEXT: Final = {9, 12}  # string, bytes


def _messages(schema: Schema) -> dict[str, dict[int, Any]]:
    """The fields of each message by number, from a serialized descriptor."""
    descriptors: Any = import_module("google.protobuf.descriptor_pb2")
    file = descriptors.FileDescriptorProto()
    file.ParseFromString(base64.b64decode(schema.text, validate=True))
    found: dict[str, dict[int, Any]] = {}

    def add(message: Any, outer: str) -> None:
        name = f"{outer}.{message.name}" if outer else message.name
        found[name] = {each.number: each for each in message.field}
        for nested in message.nested_type:
            add(nested, name)

    for message in file.message_type:
        add(message, "")
    return found


def _protobuf(
    reader: Mapping[str, Mapping[int, Any]], writer: Mapping[str, Mapping[int, Any]]
) -> list[str]:
    found = []
    for name, fields in writer.items():
        if name not in reader:
            found.append(f"/{name}: the message was removed")
            continue
        for number, each in fields.items():
            now = reader[name].get(number)
            if now is not None and not _same_wire(now.type, each.type):
                found.append(f"/{name}/{each.name}: field {number} changed its type")
    return found


def _same_wire(one: int, other: int) -> bool:
    return one == other or {one, other} <= _VARINT or {one, other} <= _TEXT
