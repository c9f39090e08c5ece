"""Responses that only report an error, at the place where clients look for it.

Kafka's responses mirror the request: topic by topic, partition by partition, with a code for
each. So a response is built by reflecting the request in the response's type: names of topics,
partitions and groups are copied, other fields get Kafka's default.
"""

import dataclasses
import typing
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from barnabas.wire.bounds import is_array, nested_entity
from barnabas.wire.schema import Message, adapt, response_type

# Field names of different messages for the same thing.
_SAME: Final = (
    ("partition_index", "partition", "index", "partition_id"),
    ("name", "topic", "topic_name", "key", "group_id"),
)
_ERROR_CODES: Final = ("error_code", "partition_error_code")
# Fields that Kafka sets beside an error, where they differ from the default.
_WHERE_AN_ERROR_IS: Final = {
    "records": b"",
    "high_watermark": -1,
    "base_offset": -1,
    "node_id": -1,
    "port": -1,
}
# Errors of the whole request: the outermost error_code has them...
_OF_THE_WHOLE: Final = frozenset(
    {
        ErrorCode.not_controller,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.unsupported_version,
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)
# ...and APIs (by kio's name) nearly all of whose errors are of the whole request.
_ALWAYS_WHOLE: Final = ("OFFSET_FETCH", "LEAVE_GROUP")


class Reflected(NamedTuple):
    """A part of a response, and whether it contains the error."""

    part: SimpleNamespace
    says_it: bool


def refuse(key: ApiKey, version: int, sent: Message, code: ErrorCode) -> Message | None:
    """The response to `sent` with error `code`; None if the request has nothing that can fail."""
    target = response_type(key, version)
    whole = code in _OF_THE_WHOLE or key.name in _ALWAYS_WHOLE
    reflected = _reflect(target, sent, code, whole)
    return adapt(reflected.part, target) if reflected.says_it else None


def marked(answer: Message, code: ErrorCode) -> Message:
    """A Metadata response with `code` for every topic, and its brokers unchanged."""
    topics = tuple(dataclasses.replace(topic, error_code=code) for topic in answer.topics)
    return dataclasses.replace(answer, topics=topics)


def _reflect(target: type[Message], asked: Any, code: ErrorCode, whole: bool) -> Reflected:
    found: dict[str, Any] = {}
    hints = typing.get_type_hints(target)
    error_code = next((name for name in _ERROR_CODES if name in hints), None)
    says_it = whole and error_code is not None
    for name, hint in hints.items():
        nested = nested_entity(hint)
        if name in _WHERE_AN_ERROR_IS:
            found[name] = _WHERE_AN_ERROR_IS[name]
        elif nested is None:
            found |= _taken_over(name, asked)
        elif is_array(hint) and not says_it:
            parts = [_reflect(nested, item, code, whole) for item in _items(name, asked)]
            if any(part.says_it for part in parts):
                found[name] = tuple(part.part for part in parts)
    says_it = says_it or any(isinstance(value, tuple) for value in found.values())
    if error_code is not None and (whole or not says_it):
        found[error_code], says_it = code, True
    elif error_code is not None:
        found[error_code] = ErrorCode.none
    return Reflected(SimpleNamespace(**found), says_it)


def _taken_over(name: str, asked: Any) -> dict[str, Any]:
    words = next((words for words in _SAME if name in words), (name,))
    if isinstance(asked, str | int):
        is_theirs = name in _SAME[0] if isinstance(asked, int) else name in _SAME[1]
        return {name: asked} if is_theirs else {}
    for word in (name, *words):
        value = getattr(asked, word, None)
        if value is not None and not isinstance(value, tuple):
            return {name: value}
    return {}


def _items(name: str, asked: Any) -> tuple[Any, ...]:
    """The items of the request to which an array of the response corresponds."""
    if isinstance(asked, str | int):
        return ()
    arrays = [getattr(asked, field.name) for field in dataclasses.fields(asked)]
    if hasattr(asked, "dirs"):  # of AlterReplicaLogDirs, whose response is by topic
        arrays = [tuple(topic for each in asked.dirs for topic in each.topics)]
    same: tuple[Any, ...] | None = getattr(asked, name, None)
    return same if same is not None else next((a for a in arrays if isinstance(a, tuple)), ())
