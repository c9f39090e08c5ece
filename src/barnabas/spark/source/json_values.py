"""JSON values to Arrow structs, by Arrow's own JSON reader, which parses many values at once.

A value is bad if the reader rejects it alone: it is no JSON object, or a field has another type. If
it rejects a block, the block is halved until the bad values are alone, so the result does not
depend on how values are grouped.
"""

import io
import re
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from barnabas.spark.user_errors import WrongOption

_BLOCK: Final = 64 * 1024 * 1024
_FEW: Final = 16
_LARGE: Final = re.compile(rb"\d{18}")
_SPACE: Final = bytes.maketrans(b"\r\n", b"  ")


class JsonDecoder:
    """Decodes JSON objects; fields that the schema lacks are ignored."""

    def __init__(self, struct: Any) -> None:
        """Raises WrongOption if the schema has a type that JSON values cannot have."""
        from pyspark.sql.pandas.types import to_arrow_type

        pa: Any = import_module("pyarrow")
        self._json: Any = import_module("pyarrow.json")
        self._target = to_arrow_type(struct, timezone="UTC")
        _check(self._target, "value")
        # Each value becomes the field v of an object of its own: one row each, or an error.
        self._schema = pa.schema([("v", _parsed(self._target))])
        self._invalid = (pa.ArrowInvalid, pa.ArrowNotImplementedError)

    def decode(self, values: Any) -> tuple[Any, dict[int, str]]:
        pa: Any = import_module("pyarrow")
        texts = [b"null" if each is None else each for each in values.to_pylist()]
        bad: dict[int, str] = {}
        empty = {row for row, each in enumerate(values.to_pylist()) if each is None}
        blocks = list(self._blocks(texts, 0, bad, empty))
        if not blocks:
            return pa.nulls(0, self._target), bad
        return pa.concat_arrays(blocks), bad

    def _blocks(
        self, texts: list[bytes], first: int, bad: dict[int, str], empty: set[int]
    ) -> list[Any]:
        if not texts:
            return []
        try:
            found = self._read(texts)
            if len(texts) == 1 and found.null_count and first not in empty:
                raise ValueError("the value is null, not a JSON object")
            if found.null_count == sum(first <= n < first + len(texts) for n in empty):
                return [found]
        except (*self._invalid, ValueError) as error:
            if len(texts) == 1:
                pa: Any = import_module("pyarrow")
                bad[first] = _reason(error)
                return [pa.nulls(1, self._target)]
        middle = len(texts) // 2
        return [
            *self._blocks(texts[:middle], first, bad, empty),
            *self._blocks(texts[middle:], first + middle, bad, empty),
        ]

    def _read(self, texts: list[bytes]) -> Any:
        pa: Any = import_module("pyarrow")
        options = self._json.ParseOptions(
            explicit_schema=self._schema, unexpected_field_behavior="ignore"
        )
        return pa.concat_arrays(_parsed_values(texts, options).chunks).cast(self._target)


def _parsed_values(texts: list[bytes], options: Any = None) -> Any:
    """The values as Arrow's JSON reader reads them. Raises ValueError if one is not JSON."""
    json: Any = import_module("pyarrow.json")
    joined = b'{"v":' + b'}\n{"v":'.join(t.translate(_SPACE) for t in texts) + b"}\n"
    joined.decode()  # Arrow does not check that texts are UTF-8
    size = max(_BLOCK, len(joined))
    reading = json.ReadOptions(use_threads=False, block_size=size)
    table = json.read_json(io.BytesIO(joined), reading, options)
    if table.num_rows != len(texts):
        raise ValueError("the value is more than one JSON object")
    return table.column("v")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "the value is not UTF-8"
    text = str(error).splitlines()[0].removeprefix("JSON parse error: ")
    return f"the value does not fit the schema: {text.replace('/v/', '').replace(' in row 0', '')}"


def _check(kind: Any, where: str) -> None:
    types: Any = import_module("pyarrow.types")
    if types.is_map(kind):
        raise WrongOption(f"{where}: a MAP cannot be read from JSON; use a STRUCT or a STRING")
    if types.is_struct(kind):
        for field in kind:
            _check(field.type, field.name)
    elif types.is_list(kind):
        _check(kind.value_type, where)


def _parsed(kind: Any) -> Any:
    """The type that the JSON reader parses; dates are texts first."""
    pa: Any = import_module("pyarrow")
    types: Any = import_module("pyarrow.types")
    if types.is_struct(kind):
        return pa.struct([(field.name, _parsed(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(_parsed(kind.value_type))
    return pa.string() if types.is_date(kind) else kind


def inferred(values: Any) -> Any:
    """The Arrow struct type of the JSON objects among the values; values that are none count not.

    Texts that look like timestamps stay texts: the next one may not look like one.
    """
    return _inferred([text for text in values.to_pylist() if text is not None])


def _inferred(texts: list[bytes]) -> Any:
    pa: Any = import_module("pyarrow")
    types: Any = import_module("pyarrow.types")
    if len(texts) > _FEW:
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            found = _parsed_values(texts).type
            # Arrow makes large integers fractions, which would lose digits.
            if types.is_struct(found) and not any(map(_LARGE.search, texts)):
                return _with_texts(found)
        middle = len(texts) // 2
        return merged(_inferred(texts[:middle]), _inferred(texts[middle:]))
    kind = pa.struct([])
    for text in texts:
        if (found := _inferred_one(text)) is not None:
            kind = merged(kind, found)
    return kind


def _with_texts(kind: Any) -> Any:
    """The type with texts instead of timestamps."""
    pa: Any = import_module("pyarrow")
    types: Any = import_module("pyarrow.types")
    if types.is_struct(kind):
        return pa.struct([(field.name, _with_texts(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(_with_texts(kind.value_type))
    return pa.string() if types.is_timestamp(kind) else kind


def _inferred_one(text: bytes) -> Any:
    import json

    pa: Any = import_module("pyarrow")
    try:
        value = json.loads(text)
        if not isinstance(value, dict):
            return None
        return pa.infer_type([value])
    except (ValueError, pa.ArrowInvalid, RecursionError, OverflowError):
        return None


def merged(one: Any, other: Any) -> Any:
    """The struct type with the fields of both; of two types for a field the first that fits both.

    A whole number and a fraction are a fraction. Otherwise the first type stays.
    """
    pa: Any = import_module("pyarrow")
    types: Any = import_module("pyarrow.types")
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if types.is_struct(one) and types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            before = fields.get(field.name)
            fields[field.name] = field.type if before is None else merged(before, field.type)
        return pa.struct(list(fields.items()))
    if types.is_list(one) and types.is_list(other):
        return pa.list_(merged(one.value_type, other.value_type))
    if types.is_integer(one) and types.is_floating(other):
        return other
    return one
