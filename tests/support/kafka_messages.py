"""Messages as Kafka's own classes encode them, from their JSON form."""

import base64
import dataclasses
import json
import uuid
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from barnabas.base.errors import ErrorCode
from barnabas.wire.schema import milliseconds
from tests.support.apache_kafka import ApacheKafka

_PROGRAM: Final = Path(__file__).parent / "KafkaMessages.java"
# The fields whose names differ from ours.
_NAMES: Final = {
    "is_kraft_controller": "isKRaftController",
    "timeout": "timeoutMs",
    "throttle_time": "throttle_time_ms",
}


def written_by_kafka(kafka: ApacheKafka, messages: Iterable[tuple[int, Any]]) -> list[bytes]:
    """The bytes of each message in its version; one run of Java encodes all."""
    lines = [f"{_class(message)} {version} {to_json(message)}\n" for version, message in messages]
    return run_kafka_messages(kafka, lines)


def run_kafka_messages(kafka: ApacheKafka, lines: Iterable[str], *options: str) -> list[bytes]:
    """The bytes that Kafka's classes write for these lines; with --records, for records."""
    printed = kafka.run(str(_PROGRAM), *options, stdin="".join(lines))
    return [bytes.fromhex(line) for line in printed.split()]


def to_json(message: Any) -> str:
    return json.dumps(_plain(message))


def _class(message: Any) -> str:
    name = type(message).__name__.removesuffix("V4").removesuffix("V1")
    return f"org.apache.kafka.common.message.{name}Data"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {
            _camel(field.name): _plain(_present(field, getattr(value, field.name)))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if isinstance(value, timedelta):
        return milliseconds(value)
    return int(value) if isinstance(value, ErrorCode) else value


def _present(field: "dataclasses.Field[Any]", value: Any) -> Any:
    """kio has None for Kafka's zero id."""
    is_id = field.metadata.get("kafka_type") == "uuid"
    return uuid.UUID(int=0) if is_id and value is None else value


def _camel(name: str) -> str:
    first, *rest = _NAMES.get(name, name).split("_")
    return first + "".join(map(str.capitalize, rest))
