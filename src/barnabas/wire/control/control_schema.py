"""Messages that kio has no schemas for: written down in their newest version, older ones derived.

A message is an ordinary dataclass in the order of Kafka's schema, so that type checkers know it.
A field that is younger than the oldest version served says `since`; an older version's type is
the same class without the fields it does not know yet. kio reads and writes both.
"""

import dataclasses
import typing
from collections.abc import Mapping
from functools import cache
from types import GenericAlias
from typing import Any, ClassVar, Final

from kio.static.constants import EntityType

from barnabas.wire.bounds import nested_entity


class Entity:
    """What kio wants to know of a message or a part of one; all versions served are flexible."""

    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.nested
    __flexible__: ClassVar[bool] = True


BOOL: Final[Mapping[str, Any]] = {"kafka_type": "bool"}
INT8: Final[Mapping[str, Any]] = {"kafka_type": "int8"}
INT16: Final[Mapping[str, Any]] = {"kafka_type": "int16"}
INT32: Final[Mapping[str, Any]] = {"kafka_type": "int32"}
INT64: Final[Mapping[str, Any]] = {"kafka_type": "int64"}
STRING: Final[Mapping[str, Any]] = {"kafka_type": "string"}
UUID: Final[Mapping[str, Any]] = {"kafka_type": "uuid"}
ERROR_CODE: Final[Mapping[str, Any]] = {"kafka_type": "error_code"}


def since(version: int, kind: Mapping[str, Any], tag: int | None = None) -> Mapping[str, Any]:
    """The metadata of a field that `version` was the first to have."""
    tagged = {} if tag is None else {"tag": tag}
    return {**kind, **tagged, "since": version}


def at_version(entity: type[Any], version: int) -> type[Any]:
    """The type of the message as `version` has it."""
    return _at_version(typing.cast(Any, entity), version)


@cache
def _at_version(entity: Any, version: int) -> type[Any]:
    fields = [
        (field.name, _hint(field.type, version), _copy(field))
        for field in dataclasses.fields(entity)
        if field.metadata.get("since", 0) <= version
    ]
    return dataclasses.make_dataclass(
        entity.__name__, fields, bases=(Entity,), frozen=True, slots=True, kw_only=True
    )


def _hint(hint: Any, version: int) -> Any:
    """The type of a field; if it lists parts of the message, then as `version` has those."""
    part = nested_entity(hint)
    return hint if part is None else GenericAlias(tuple, (at_version(part, version), ...))


def _copy(field: "dataclasses.Field[Any]") -> Any:
    return dataclasses.field(default=field.default, metadata=field.metadata)
