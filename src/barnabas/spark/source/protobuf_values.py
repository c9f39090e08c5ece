"""Protobuf values: messages of registered schemas to dictionaries, and their types."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from google.protobuf.message import DecodeError

from barnabas.spark.source.registry_client import RegisteredSchema
from barnabas.spark.source.value_types import Array, Map, Struct, ValueType
from barnabas.spark.user_errors import SparkFailure

TIMESTAMP: Final = "google.protobuf.Timestamp"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# By the numbers of FieldDescriptor.CPPTYPE_*; unsigned numbers need more bits in Spark.
_TYPES: Final = {1: "INT", 2: "BIGINT", 3: "BIGINT", 4: "DECIMAL(20, 0)", 5: "DOUBLE", 6: "FLOAT",
                 7: "BOOLEAN", 8: "STRING"}  # fmt: skip
CPP_MESSAGE: Final = 10
_CPP_STRING: Final = 9
_TYPE_BYTES: Final = 12


def root_message(schema: RegisteredSchema, path: Sequence[int]) -> Any:
    """The descriptor of the message at `path`: an index of the file, then of nested messages.

    Raises  ValueError if there is none
    """
    messages = list(_file(schema).message_types_by_name.values())
    found: Any = None
    for index in path:
        if not 0 <= index < len(messages):
            raise ValueError(f"the schema has no message {list(path)}")
        found = messages[index]
        messages = list(found.nested_types)
    return found


def _file(schema: RegisteredSchema) -> Any:
    key = tuple(sorted((name, each.text) for name, each in schema.references.items()))
    return _loaded(schema.text, key)


@lru_cache(maxsize=256)
def _loaded(text: str, references: tuple[tuple[str, str], ...]) -> Any:
    descriptors: Any = import_module("google.protobuf.descriptor_pb2")
    pool: Any = import_module("google.protobuf.descriptor_pool").DescriptorPool()
    _add_well_known(pool, descriptors)
    for name, each in references:
        if not name.startswith("google/protobuf/"):
            _add(pool, descriptors, each, name)
    return pool.FindFileByName(_add(pool, descriptors, text, None))


def _add_well_known(pool: Any, descriptors: Any) -> None:
    for module in ("timestamp", "wrappers", "duration", "struct", "any", "empty"):
        known: Any = import_module(f"google.protobuf.{module}_pb2")
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)


def _add(pool: Any, descriptors: Any, text: str, name: str | None) -> str:
    file = descriptors.FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        raise SparkFailure(
            "the registry returned a Protobuf schema as text, not as a serialized descriptor;"
            " register it with a client that sends descriptors, or use a registry that supports"
            " format=serialized"
        ) from None
    if name is not None:
        file.name = name
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return str(file.name)


def message_type(descriptor: Any, within: tuple[str, ...] = ()) -> ValueType:
    """Spark's type of a message. Raises SparkFailure if the message contains itself."""
    name = str(descriptor.full_name)
    if name == TIMESTAMP:
        return "TIMESTAMP"
    if name in within:
        raise SparkFailure(f"message {name} contains itself; no type in Spark does")
    inner = (*within, name)
    return Struct({field.name: _field_type(field, inner) for field in descriptor.fields})


def _field_type(field: Any, within: tuple[str, ...]) -> ValueType:
    if is_map(field):
        return Map(_single_type(field.message_type.fields_by_name["value"], within))
    kind = _single_type(field, within)
    return Array(kind) if field.is_repeated else kind


def _single_type(field: Any, within: tuple[str, ...]) -> ValueType:
    if field.cpp_type == CPP_MESSAGE:
        return message_type(field.message_type, within)
    if field.cpp_type == _CPP_STRING:
        return "BINARY" if field.type == _TYPE_BYTES else "STRING"
    return _TYPES[field.cpp_type]


def is_map(field: Any) -> bool:
    return field.cpp_type == CPP_MESSAGE and bool(field.message_type.GetOptions().map_entry)


def read_message(payload: bytes, schema: RegisteredSchema) -> dict[str, Any]:
    """Decode a value after its schema id: the indexes of its message, then the message.

    Raises  ValueError if it is not one
    """
    path, position = _read_path(payload)
    factory: Any = import_module("google.protobuf.message_factory")
    message = factory.GetMessageClass(root_message(schema, path))()
    try:
        message.ParseFromString(payload[position:])
    except DecodeError as error:
        raise ValueError(f"it is not a {message.DESCRIPTOR.full_name}: {error}") from None
    found = _plain(message)
    assert isinstance(found, dict)
    return found


def _read_path(payload: bytes) -> tuple[list[int], int]:
    count, position = _varint(payload, 0)
    if count == 0:
        return [0], position
    path = []
    for _ in range(count):
        index, position = _varint(payload, position)
        path.append(index)
    return path, position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    shift = number = 0
    while True:
        if position >= len(data):
            raise ValueError("it ends within its message indexes")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), position


def _plain(message: Any) -> Any:
    if message.DESCRIPTOR.full_name == TIMESTAMP:
        return _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return [(str(key), _single(each, inner)) for key, each in value.items()]
    if field.is_repeated:
        return [_single(each, field) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(value, field)


def _single(value: Any, field: Any) -> Any:
    if field.cpp_type == CPP_MESSAGE:
        return _plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return value
