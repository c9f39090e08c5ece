"""Kafka's schema language in Python: schemas that kio lacks.

A message is a frozen dataclass with its fields in the order of Kafka's schema. The field's type
says whether it is an array, may be null or is a struct; its metadata says the primitive, the first
version that has it, and its tag. `message_codec` reads and writes such messages in any version.

Records of internal topics have one class for all versions. A request or response has a type for
each version, as kio's messages have: `at_version` derives the older ones.
"""

import dataclasses
import typing
from collections.abc import Callable, Mapping
from functools import cache
from types import GenericAlias
from typing import Any, ClassVar, Final, TypeAlias

from kio.static.constants import EntityType

from barnabas.wire.bounds import is_nullable, nested_entity

Primitive: TypeAlias = Mapping[str, Any]

BOOL: Final[Primitive] = {"kafka_type": "bool"}
INT8: Final[Primitive] = {"kafka_type": "int8"}
INT16: Final[Primitive] = {"kafka_type": "int16"}
INT32: Final[Primitive] = {"kafka_type": "int32"}
INT64: Final[Primitive] = {"kafka_type": "int64"}
STRING: Final[Primitive] = {"kafka_type": "string"}
# Kafka's strings have 32,767 bytes at most; this one has no limit, in flexible versions.
LONG_STRING: Final[Primitive] = {"kafka_type": "string", "long": True}
BYTES: Final[Primitive] = {"kafka_type": "bytes"}
UUID: Final[Primitive] = {"kafka_type": "uuid"}
ERROR_CODE: Final[Primitive] = {"kafka_type": "error_code"}
DURATION: Final[Primitive] = {"kafka_type": "timedelta_i32"}  # milliseconds
STRUCT: Final[Primitive] = {}


def since(version: int, primitive: Primitive = STRUCT, tag: int | None = None) -> Mapping[str, Any]:
    """The metadata of a field that `version` was the first to have."""
    tagged = {} if tag is None else {"tag": tag}
    return {**primitive, **tagged, "since": version}


def always_tagged(tag: int, primitive: Primitive = STRUCT) -> Mapping[str, Any]:
    """The metadata of a tagged field that is written even if it has its default."""
    return {**primitive, "tag": tag, "always": True}


def derived(primitive: Primitive, of: Callable[[Any], object]) -> Mapping[str, Any]:
    """The metadata of a field that newer versions lack: `of` computes it from their message."""
    return {**primitive, "derived": of}


class Entity:
    """A request, a response or a struct of one, as kio wants to know it; flexible."""

    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.nested
    __flexible__: ClassVar[bool] = True


class PlainEntity(Entity):
    """The same in versions before the flexible ones."""

    __slots__ = ()
    __flexible__: ClassVar[bool] = False


def at_version(entity: type[Any], version: int, is_flexible: bool = True) -> type[Any]:
    """The type of the message in `version`: the same class without the fields that are newer.

    Unless `is_flexible`, it has the plain form of old versions.
    """
    return _at_version(typing.cast(Any, entity), version, is_flexible)


@cache
def _at_version(entity: Any, version: int, is_flexible: bool) -> type[Any]:
    fields = [
        (field.name, _hint(field.type, version, is_flexible), _copy(field))
        for field in dataclasses.fields(entity)
        if field.metadata.get("since", 0) <= version
    ]
    bases = entity.__bases__ if is_flexible else (PlainEntity,)
    return dataclasses.make_dataclass(
        entity.__name__, fields, bases=bases, frozen=True, slots=True, kw_only=True
    )


def _hint(hint: Any, version: int, is_flexible: bool) -> Any:
    """The type of a field; an array of structs has the structs of `version`."""
    part = nested_entity(hint)
    if part is None:
        return hint
    array = GenericAlias(tuple, (at_version(part, version, is_flexible), ...))
    return array | None if is_nullable(hint) else array


def _copy(field: "dataclasses.Field[Any]") -> Any:
    return dataclasses.field(default=field.default, metadata=field.metadata)
