"""JSON fields as Kafka writes and reads them: no spaces, UTF-8, strict types."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from barnabas.base.ids import BrokerId
from barnabas.znodes.tree import MalformedZnode


def to_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


@contextmanager
def reading(path: str) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise MalformedZnode(path, f"missing field {error}") from error
    except (ValueError, TypeError) as error:
        raise MalformedZnode(path, str(error)) from error


def parsed(data: bytes) -> dict[str, Any]:
    return mapping(json.loads(data))


def mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not an object")
    return value


def integer(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not an integer")
    return value


def text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def broker_ids(value: object) -> tuple[BrokerId, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return tuple(BrokerId(integer(each)) for each in value)
