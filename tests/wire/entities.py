"""Messages of any kio schema, drawn at random or filled with defaults."""

import dataclasses
import datetime
import io
import types
import typing
from functools import cache
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.bounds import is_array, nested_entity

SERVED = [(key, version) for key, a in APIS.items() for version in range(a.lowest, a.highest + 1)]
SERVED_IDS = [f"{key.name}-{version}" for key, version in SERVED]


def served(key: ApiKey) -> range:
    return range(APIS[key].lowest, APIS[key].highest + 1)


def written(message: Any) -> bytes:
    """The body of a message, as kio writes it."""
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


# kio keeps durations as timedelta, which loses nothing within these limits.
_MILLISECONDS = _signed(32).map(lambda ms: datetime.timedelta(milliseconds=ms))

_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _signed(8),
    "int16": _signed(16),
    "int32": _signed(32),
    "int64": _signed(64),
    "uint8": _unsigned(8),
    "uint16": _unsigned(16),
    "uint32": _unsigned(32),
    "uint64": _unsigned(64),
    "float64": st.floats(allow_nan=False),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=150),
    "bytes": st.binary(max_size=150),
    "records": st.binary(max_size=150),
    "uuid": st.uuids(allow_nil=False),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": _MILLISECONDS,
    "timedelta_i64": _MILLISECONDS,
    "datetime_i64": st.integers(0, 2**40).map(
        lambda ms: (
            datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=ms)
        )
    ),
}


def entities(entity: type[Any]) -> st.SearchStrategy[Any]:
    """Any message of this type."""
    return _entities(typing.cast(Any, entity))


@cache
def _entities(entity: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(entity)
    return st.builds(
        entity,
        **{field.name: _values(field, hints[field.name]) for field in dataclasses.fields(entity)},
    )


def _values(field: "dataclasses.Field[Any]", hint: object) -> st.SearchStrategy[Any]:
    nested = nested_entity(hint)
    values = _PRIMITIVES[field.metadata["kafka_type"]] if nested is None else entities(nested)
    if is_array(hint):
        values = st.lists(values, max_size=2).map(tuple)
    is_optional = isinstance(hint, types.UnionType) and type(None) in hint.__args__
    # A tag that is absent stands for its default, so null cannot be told from it.
    if is_optional and "tag" not in field.metadata:
        values = st.none() | values
    return values
