"""Protobuf messages of rows: the schema of a struct, and values as messages of it.

Fields are numbered by their place, so a struct may only grow at its end. Each field has presence:
a null is a field that is not set. Dates and decimals are texts.
"""

import base64
import re
from datetime import date
from importlib import import_module
from typing import Any, Final

from google.protobuf import descriptor_pb2

from barnabas.spark.source.protobuf_values import CPP_MESSAGE, TIMESTAMP, is_map
from barnabas.spark.user_errors import SparkFailure, WrongOption

_Field: Final = descriptor_pb2.FieldDescriptorProto
_TYPES: Final = {
    "boolean": _Field.TYPE_BOOL, "tinyint": _Field.TYPE_INT32, "smallint": _Field.TYPE_INT32,
    "int": _Field.TYPE_INT32, "bigint": _Field.TYPE_INT64, "float": _Field.TYPE_FLOAT,
    "double": _Field.TYPE_DOUBLE, "string": _Field.TYPE_STRING, "binary": _Field.TYPE_BYTES,
    "date": _Field.TYPE_STRING,
}  # fmt: skip
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def protobuf_schema(struct: Any, subject: str) -> str:
    """The schema of a struct: its serialized file descriptor in base64, as the registry takes it.

    Raises  WrongOption for a field that no message can have
    """
    name = re.sub(r"\W", "_", subject)
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{name}.proto",
        package="barnabas",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    _add_message(file.message_type.add(name="Value"), struct, ".barnabas.Value")
    return base64.b64encode(file.SerializeToString()).decode()


def _add_message(message: Any, struct: Any, full_name: str) -> None:
    for number, each in enumerate(struct.fields, 1):
        if not _NAME.fullmatch(each.name):
            raise WrongOption(f"field {each.name!r}: Protobuf needs letters, digits and _ only")
        field = message.field.add(name=each.name, number=number, label=_Field.LABEL_OPTIONAL)
        kind = each.dataType
        if kind.typeName() in ("array", "map"):
            field.label = _Field.LABEL_REPEATED
        else:
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{each.name}")
        _set_type(message, field, kind, full_name)


def _set_type(message: Any, field: Any, kind: Any, full_name: str) -> None:
    name, text = kind.typeName(), kind.simpleString()
    if name == "array" and kind.elementType.typeName() not in ("array", "map"):
        _set_type(message, field, kind.elementType, full_name)
    elif name == "map" and kind.valueType.typeName() not in ("array", "map"):
        entry = _nested(message, field, f"{_camel(field.name)}Entry", full_name)
        entry.options.map_entry = True
        for number, (part, inner) in enumerate((("key", kind.keyType), ("value", kind.valueType))):
            added = entry.field.add(name=part, number=number + 1, label=_Field.LABEL_OPTIONAL)
            _set_type(entry, added, inner, field.type_name)
    elif name == "struct":
        nested = _nested(message, field, f"{_camel(field.name)}Value", full_name)
        _add_message(nested, kind, field.type_name)
    elif text == "timestamp":
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{TIMESTAMP}"
    elif text in _TYPES or name == "decimal":
        field.type = _TYPES.get(text, _Field.TYPE_STRING)
    else:
        raise WrongOption(f"field {field.name!r}: Protobuf has no type for {text}")


def _nested(message: Any, field: Any, name: str, full_name: str) -> Any:
    field.type, field.type_name = _Field.TYPE_MESSAGE, f"{full_name}.{name}"
    return message.nested_type.add(name=name)


def _camel(name: str) -> str:
    """The name of a map's entries: Protobuf derives it from the field's name."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


class MessageWriter:
    """Messages of one registered schema, whose root is the first message of the file."""

    def __init__(self, root: Any) -> None:
        factory: Any = import_module("google.protobuf.message_factory")
        self._made = factory.GetMessageClass(root)

    def payload(self, value: dict[str, Any]) -> bytes:
        """The message of a struct, after the index that means the first message.

        Raises  SparkFailure if an element of an array is null
        """
        message = self._made()
        _fill(message, value)
        return b"\0" + bytes(message.SerializeToString())


def _fill(message: Any, value: Any) -> None:
    if message.DESCRIPTOR.full_name == TIMESTAMP:
        message.FromDatetime(value)
        return
    message.SetInParent()  # a struct of nulls is not null
    for field in message.DESCRIPTOR.fields:
        found = value.get(field.name)
        if found is None:
            continue
        if is_map(field):
            _fill_map(getattr(message, field.name), field, found)
        elif field.is_repeated:
            _fill_list(getattr(message, field.name), field, found)
        elif field.cpp_type == CPP_MESSAGE:
            _fill(getattr(message, field.name), found)
        else:
            setattr(message, field.name, _scalar(found, field))


def _fill_map(target: Any, field: Any, found: list[tuple[Any, Any]]) -> None:
    inner = field.message_type.fields_by_name["value"]
    for key, value in found:
        if inner.cpp_type == CPP_MESSAGE:
            _fill(target[key], _present(value, field))
        else:
            target[key] = _scalar(_present(value, field), inner)


def _fill_list(target: Any, field: Any, found: list[Any]) -> None:
    for value in found:
        if field.cpp_type == CPP_MESSAGE:
            _fill(target.add(), _present(value, field))
        else:
            target.append(_scalar(_present(value, field), field))


def _present(value: Any, field: Any) -> Any:
    if value is None:
        raise SparkFailure(f"field {field.name}: Protobuf has no null in an array or a map")
    return value


def _scalar(value: Any, field: Any) -> Any:
    if field.type != _Field.TYPE_STRING or isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)
