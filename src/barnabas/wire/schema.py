"""API messages in every version: handlers see the newest, the wire any of them.

Kafka's messages keep their field names from version to version; a version only has more or fewer of
them. A request of any version is read and *adapted* to the newest version that is served, with
Kafka's defaults for the fields it lacks; a response is made in the newest version and adapted down
to the one that the client asked for. kio has the schemas of most messages; `message_schema` is the
language of those that it lacks.
"""

import dataclasses
import datetime
import io
import math
import struct
import typing
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.constants import EntityType

from barnabas.base.errors import BarnabasError, ErrorCode
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.bounds import bounded, is_array, is_nullable, most_elements, nested_entity
from barnabas.wire.control import control_request, control_response
from barnabas.wire.message_codec import MessageCodec
from barnabas.wire.message_schema import Entity, at_version
from barnabas.wire.varint import Truncated

# kio's entities are dataclasses generated per version; only handlers know the exact one.
Message = Any


_HEAD = struct.Struct(">ii")
UNREADABLE: Final = (SerialError, Truncated, ValueError, OverflowError)

# The first version that kio has, of the APIs that are served from an older one on.
_FIRST_OF_KIO: Final = {
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_ACLS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
}


# Small messages of which a producer sends and gets the same again with each transaction.
REPEATED: Final = frozenset({ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN})
LONGEST_REPEATED: Final = 512


class MalformedRequest(BarnabasError):
    """The bytes are not a message of the API and version that their header names."""


def read_as_sent(key: ApiKey, version: int, body: memoryview) -> Message:
    """The request in `body`, in the version it was sent in.

    Raises  MalformedRequest, if the body is cut short or not of that schema
    """
    try:
        return read_body(request_type(key, version), body, most_elements(key))
    except UNREADABLE as e:
        raise MalformedRequest(f"{key.name} v{version}: {type(e).__name__} {e}".rstrip()) from e


@lru_cache(1000)
def read_again(key: ApiKey, version: int, body: bytes) -> tuple[Message, Message]:
    """A request as it was sent, and in the newest version; remembered for the next one like it.

    Raises  MalformedRequest
    """
    sent = read_as_sent(key, version, memoryview(body))
    return sent, newest(key, sent)


def newest(key: ApiKey, sent: Message) -> Message:
    """`sent` adapted to the newest version served."""
    return adapt(sent, request_type(key, APIS[key].highest))


def write_response(key: ApiKey, version: int, correlation_id: int, response: Message) -> bytes:
    """The frame, size first, that answers `correlation_id` with `response`."""
    # Clients cannot know yet whether the broker is flexible when they ask for its versions.
    is_tagged = version >= APIS[key].flexible and key is not ApiKey.API_VERSIONS
    entity: Any = response_type(key, version)
    if key in REPEATED and _has_fields(typing.cast(Any, type(response)), entity):
        body = _codec(entity).encode(response)
    else:
        body = write_body(entity, response)
    head = _HEAD.pack(4 + is_tagged + len(body), correlation_id)
    return b"".join((head, b"\0" if is_tagged else b"", body))


@cache
def _has_fields(kind: Any, entity: Any) -> bool:
    """True if messages of a type have all fields of another: they need not be adapted to it."""
    return _names(entity) <= _names(kind)


def _names(entity: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(entity)}


def read_body(entity: type[Message], body: memoryview, most_elements: float = math.inf) -> Message:
    """The message of this type that `body` begins with; see UNREADABLE for what it raises."""
    if issubclass(entity, Entity):
        return _codec(typing.cast(Any, entity)).decode(body)
    body = bounded(entity, body, most_elements)
    return _reader(typing.cast(Any, entity))(body.toreadonly(), 0)[0]


def write_body(entity: type[Message], message: Message) -> bytes:
    """The bytes of a message, which may be of another version, as this type."""
    message = adapt(message, entity)
    if issubclass(entity, Entity):
        return _codec(typing.cast(Any, entity)).encode(message)
    out = io.BytesIO()
    entity_writer(entity)(out, message)
    return out.getvalue()


@cache
def _codec(entity: Any) -> MessageCodec:
    return MessageCodec(entity, flexible=entity.__flexible__)


@cache
def _reader(entity: Any) -> Callable[[memoryview, int], tuple[Message, int]]:
    return entity_reader(entity)


@cache
def request_type(key: ApiKey, version: int) -> type[Message]:
    own = control_request(key, version) or _old_type(key, version, "Request")
    return own or _message_type(key, version, "Request", EntityType.request)


@cache
def response_type(key: ApiKey, version: int) -> type[Message]:
    own = control_response(key, version) or _old_type(key, version, "Response")
    return own or _message_type(key, version, "Response", EntityType.response)


def _old_type(key: ApiKey, version: int, kind: str) -> type[Message] | None:
    """The type of a version that is older than those of kio; `old_schemas` has the newest."""
    first = _FIRST_OF_KIO.get(key, 0)
    if version >= first:
        return None
    name = f"{key.name.title().replace('_', '')}{kind}"
    newest: type[Message] = getattr(import_module("barnabas.wire.old_schemas"), name)
    is_own = issubclass(newest, Entity) and version < first - 1
    return at_version(newest, version) if is_own else newest


def _message_type(key: ApiKey, version: int, suffix: str, kind: Any) -> type[Message]:
    module = load_payload_module(key, version, kind)
    wanted = key.name.replace("_", "").lower() + suffix.lower()
    found: type[Message] = next(
        value for name, value in vars(module).items() if name.lower() == wanted
    )
    return found


class _FieldPlan(NamedTuple):
    """How a field of an adapted message is filled."""

    name: str
    nested: type[Message] | None
    nullable: bool
    default: object
    derived: Callable[[Message], object] | None


def adapt(message: Message, target: type[Message]) -> Message:
    """The same message as `target`, another version's type, with Kafka's defaults for the rest."""
    if type(message) is target:
        return message
    values = {}
    for name, nested, nullable, default, derived in _plan(typing.cast(Any, target)):
        value = getattr(message, name, default) if derived is None else derived(message)
        if value is None and not nullable:
            value = default
        if nested is not None and value is not None and value != ():
            if isinstance(value, tuple):
                value = tuple(adapt(item, nested) for item in value)
            else:
                value = adapt(value, nested)
        values[name] = value
    return target(**values)


@cache
def _plan(target: Any) -> list[_FieldPlan]:
    hints = typing.get_type_hints(target)
    return [
        _FieldPlan(
            field.name,
            nested_entity(hint),
            is_nullable(hint),
            _default(field, hint),
            field.metadata.get("derived"),
        )
        for field in dataclasses.fields(target)
        for hint in [hints[field.name]]
    ]


_IMPLICIT: dict[str, object] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0),
}


def _default(field: "dataclasses.Field[Any]", hint: object) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if is_array(hint):
        return ()
    if is_nullable(hint):
        return None
    return _IMPLICIT.get(field.metadata.get("kafka_type", ""), 0)


def duration(ms: int) -> Any:
    """Kafka's milliseconds as kio's duration."""
    return datetime.timedelta(milliseconds=ms)


def milliseconds(duration: datetime.timedelta) -> int:
    """kio's durations as Kafka's milliseconds."""
    return round(duration.total_seconds() * 1000)


NO_THROTTLE = typing.cast(Any, datetime.timedelta(0))
