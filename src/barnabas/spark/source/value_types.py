"""Types of values between registries and Spark: a tree that is merged and printed as DDL.

A type is the name of a Spark type, or a Struct, an Array or a Map of types.
"""

from dataclasses import dataclass
from typing import Final

_WIDER: Final = ("INT", "BIGINT", "FLOAT", "DOUBLE")


@dataclass(frozen=True)
class Struct:
    fields: dict[str, "ValueType"]


@dataclass(frozen=True)
class Array:
    of: "ValueType"


@dataclass(frozen=True)
class Map:
    of: "ValueType"


ValueType = str | Struct | Array | Map


def ddl(kind: ValueType) -> str:
    match kind:
        case Struct():
            return f"STRUCT<{fields_ddl(kind)}>"
        case Array():
            return f"ARRAY<{ddl(kind.of)}>"
        case Map():
            return f"MAP<STRING, {ddl(kind.of)}>"
    return kind


def fields_ddl(kind: Struct) -> str:
    """The fields as columns in SQL."""
    quoted = {name: name.replace("`", "``") for name in kind.fields}
    return ", ".join(f"`{quoted[name]}` {ddl(each)}" for name, each in kind.fields.items())


def merge(old: ValueType, new: ValueType) -> ValueType:
    """A type for values of both: the fields of both, and the wider of two numbers."""
    if isinstance(old, Struct) and isinstance(new, Struct):
        fields = dict(old.fields)
        for name, each in new.fields.items():
            fields[name] = merge(fields[name], each) if name in fields else each
        return Struct(fields)
    if isinstance(old, Array) and isinstance(new, Array):
        return Array(merge(old.of, new.of))
    if isinstance(old, Map) and isinstance(new, Map):
        return Map(merge(old.of, new.of))
    if old in _WIDER and new in _WIDER:
        return max(old, new, key=lambda each: _WIDER.index(str(each)))
    return new
