"""Bounds checks of a client's message, before kio's native reader, which trusts its input.

The reader allocates memory for as many elements as an array announces: a frame of twenty bytes
that announces two thousand million of them would end the process. And it rejects tagged fields
that it does not know, where Kafka skips those that newer clients send. So a message is first
walked with its own schema: lengths are checked, nothing is built, unknown tags are removed.
"""

import dataclasses
import math
import struct
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from barnabas.wire.apis import ApiKey
from barnabas.wire.varint import Truncated, read_uvarint, uvarint

# The most elements of all arrays in a request: in memory an element takes up to 400 bytes.
MOST_ELEMENTS: Final = 1_000_000
# The same where a handler needs all of them for one decision, which is made in one turn of the
# loop. In a cluster of 50,000 partitions nobody names more.
MOST_DECIDED: Final = 100_000
DECIDED_AT_ONCE: Final = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.LIST_GROUPS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.UPDATE_FEATURES,
    }
)
# Fewer where a decision takes two microseconds for each: it, too, has to take 50 ms at most.
FEWER_DECIDED: Final = {ApiKey.ALTER_CONFIGS: 20_000, ApiKey.INCREMENTAL_ALTER_CONFIGS: 20_000}
# As in Kafka, also where a length could be larger.
LONGEST_STRING: Final = 0x7FFF

# A range of the message, and its replacement.
Edit = tuple[int, int, bytes]


class Walk(list[Edit]):
    """The edits that a walk over a message found necessary, and the elements it went past."""

    __slots__ = ("elements", "most")

    def __init__(self, most: float) -> None:
        super().__init__()
        self.elements = 0
        self.most = most

    def add(self, elements: int) -> None:
        self.elements += elements
        if self.elements > self.most:
            raise Truncated(f"the message has more than {self.most:,} elements")


# From the position of a value to the position after it; what must be edited goes on the list.
Skip = Callable[[memoryview, int, Walk], int]

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")

_FIXED: Final = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}


class Shape(NamedTuple):
    """How a kind of value lies in a buffer: how to step over one, how small it can be, and
    whether all have that size.
    """

    skip: Skip
    smallest: int
    is_fixed: bool = False


def bounded(entity: type[Any], body: memoryview, most_elements: float = math.inf) -> memoryview:
    """`body`, a message of type `entity`, without the tagged fields which that does not know.

    Raises  Truncated, if a length in it reaches past its end, or if it has too many elements
    """
    edits = Walk(most_elements)
    try:
        end = entity_shape(typing.cast(Any, entity)).skip(body, 0, edits)
    except struct.error as e:
        raise Truncated(f"the message ends inside a length: {e}") from None
    return memoryview(_edited(body, 0, end, edits)) if edits else body


def most_elements(key: ApiKey) -> int:
    """The most elements in a request of this API; more are malformed."""
    if key in DECIDED_AT_ONCE:
        return FEWER_DECIDED.get(key, MOST_DECIDED)
    return MOST_ELEMENTS


def has_more_elements(message: object, than: int) -> bool:
    """True if the arrays of a message have more elements, with those in its structs."""
    return _left(message, than) < 0


def _left(message: object, allowed: int) -> int:
    """How many more elements there may be than the message has; negative if it has too many.

    Looks at no more of them than it has to.
    """
    for name, is_struct in _arrays(typing.cast(Any, type(message))):
        array = getattr(message, name) or ()
        allowed -= len(array)
        if is_struct:
            for each in array:
                if allowed < 0:
                    break
                allowed = _left(each, allowed)
    return allowed


@cache
def _arrays(entity: Any) -> tuple[tuple[str, bool], ...]:
    """The arrays among the fields, and whether each is one of structs that have arrays."""
    hints = typing.get_type_hints(entity)
    return tuple(
        (field.name, nested is not None and bool(_arrays(typing.cast(Any, nested))))
        for field in dataclasses.fields(entity)
        if is_array(hints[field.name])
        for nested in [nested_entity(hints[field.name])]
    )


@cache
def entity_shape(entity: Any) -> Shape:
    hints = typing.get_type_hints(entity)
    flexible: bool = entity.__flexible__
    plain: list[Shape] = []
    tagged: dict[int, Skip] = {}
    for field in dataclasses.fields(entity):
        shape = _field_shape(field, hints[field.name], flexible)
        if (tag := field.metadata.get("tag")) is None:
            plain.append(shape)
        else:
            tagged[tag] = shape.skip
    skips = [shape.skip for shape in plain]

    def skip(buffer: memoryview, position: int, edits: Walk) -> int:
        for skip_field in skips:
            position = skip_field(buffer, position, edits)
        return _skip_tagged(buffer, position, tagged, edits) if flexible else position

    return Shape(skip, sum(shape.smallest for shape in plain) + flexible)


def _field_shape(field: "dataclasses.Field[Any]", hint: object, flexible: bool) -> Shape:
    nested = nested_entity(hint)
    if nested is not None:
        shape = entity_shape(typing.cast(Any, nested))
        # A nullable struct is preceded by a byte, except in a tagged field.
        if not is_array(hint) and is_nullable(hint) and "tag" not in field.metadata:
            shape = _nullable(shape)
    else:
        shape = _primitive(field.metadata["kafka_type"], flexible)
    return _array(shape, flexible, is_nullable(hint)) if is_array(hint) else shape


def _primitive(kind: str, flexible: bool) -> Shape:
    if kind in _FIXED:
        return _fixed(_FIXED[kind])
    length = _compact_length if flexible else _LENGTHS[kind]
    longest = LONGEST_STRING if kind == "string" else math.inf

    def skip(buffer: memoryview, position: int, _: Walk) -> int:
        size, position = length(buffer, position)
        if size > longest:
            raise Truncated(f"a string has {size} bytes")
        return _within(buffer, position + max(0, size))

    return Shape(skip, 1 if flexible else 2)


def _fixed(size: int) -> Shape:
    return Shape(lambda buffer, position, _: _within(buffer, position + size), size, is_fixed=True)


def _nullable(shape: Shape) -> Shape:
    def skip(buffer: memoryview, position: int, edits: Walk) -> int:
        _within(buffer, position + 1)
        there = buffer[position] < 0x80
        return shape.skip(buffer, position + 1, edits) if there else position + 1

    return Shape(skip, 1)


def _array(element: Shape, flexible: bool, nullable: bool) -> Shape:
    length = _compact_length if flexible else _int_length

    def skip(buffer: memoryview, position: int, edits: Walk) -> int:
        count, position = length(buffer, position)
        if count < 0 and not nullable:
            raise Truncated("a list is null that cannot be")
        if count * element.smallest > len(buffer) - position:
            raise Truncated(f"there is no room for {count} elements")
        edits.add(max(0, count))
        if element.is_fixed:
            return position + max(0, count) * element.smallest
        for _ in range(count):
            position = element.skip(buffer, position, edits)
        return position

    return Shape(skip, 1 if flexible else 4)


def _skip_tagged(buffer: memoryview, position: int, known: dict[int, Skip], edits: Walk) -> int:
    start = position
    count, position = read_uvarint(buffer, position)
    edits.add(count)
    kept: list[bytes] = []
    edited = False
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        end = _within(buffer, position + size)
        inner = Walk(edits.most)
        if tag in known:
            known[tag](buffer[:end], position, inner)
            edits.add(inner.elements)
            value = _edited(buffer, position, end, inner)
            kept.append(uvarint(tag) + uvarint(len(value)) + value)
        edited = edited or tag not in known or bool(inner)
        position = end
    if edited:
        edits.append((start, position, uvarint(len(kept)) + b"".join(kept)))
    return position


def _edited(buffer: memoryview, start: int, end: int, edits: list[Edit]) -> bytes:
    out = bytearray()
    for edit_start, edit_end, value in edits:
        out += buffer[start:edit_start]
        out += value
        start = edit_end
    out += buffer[start:end]
    return bytes(out)


def _within(buffer: memoryview, position: int) -> int:
    if position > len(buffer):
        raise Truncated("the message ends before what it announces")
    return position


def _compact_length(buffer: memoryview, position: int) -> tuple[int, int]:
    length, position = read_uvarint(buffer, position)
    return length - 1, position


def _short_length(buffer: memoryview, position: int) -> tuple[int, int]:
    return _SHORT.unpack_from(buffer, position)[0], position + 2


def _int_length(buffer: memoryview, position: int) -> tuple[int, int]:
    return _INT.unpack_from(buffer, position)[0], position + 4


_LENGTHS: Final = {"string": _short_length, "bytes": _int_length, "records": _int_length}


def nested_entity(hint: object) -> type[Any] | None:
    """The entity type within a field's type, be it one, an array of it, or null."""
    for part in typing.get_args(hint):
        if (found := nested_entity(part)) is not None:
            return found
    return hint if isinstance(hint, type) and dataclasses.is_dataclass(hint) else None


def is_nullable(hint: object) -> bool:
    return isinstance(hint, types.UnionType) and type(None) in hint.__args__


def is_array(hint: object) -> bool:
    return typing.get_origin(hint) is tuple or any(
        typing.get_origin(part) is tuple for part in typing.get_args(hint)
    )
