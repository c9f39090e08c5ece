"""Messages as people read them: JSON, text, hex, or decoded with a schema."""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from barnabas.console.messages.record_reader import ReadMessage
from barnabas.console.messages.schema_registry import SchemaRegistry, UnknownSchema

FORMATS: Final = ("auto", "json", "text", "hex")
_LONGEST: Final = 20_000
_LINE: Final = 32


class ShownData(NamedTuple):
    """A key or a value: how it was read, and its text."""

    kind: str
    text: str
    size: int


class ShownMessage(NamedTuple):
    """One message, ready to be rendered."""

    partition: int
    offset: int
    timestamp: int
    key: ShownData
    value: ShownData
    headers: Sequence[tuple[str, str]]
    leader_epoch: int
    producer_id: int
    codec: int
    is_transactional: bool

    @property
    def id(self) -> str:
        return f"m-{self.partition}-{self.offset}"


def show_data(data: bytes | None, wanted: str, registry: SchemaRegistry | None) -> ShownData:
    """The text of a key or value; `auto` tries the registry, then JSON, text, hex."""
    if data is None:
        return ShownData("null", "null", 0)
    if wanted == "auto" and registry is not None and registry.is_framed(data):
        try:
            kind, decoded = registry.decode(data)
            return ShownData(kind, _clipped(json.dumps(decoded, indent=2, default=str)), len(data))
        except UnknownSchema:
            pass
    kind, text = _text(data, wanted)
    return ShownData(kind, _clipped(text), len(data))


def _text(data: bytes, wanted: str) -> tuple[str, str]:
    if wanted == "hex":
        return "hex", hexdump(data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "hex", hexdump(data)
    if wanted in ("auto", "json") and text[:1] in "{[":
        try:
            return "JSON", json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except ValueError:
            pass
    if wanted == "auto" and any(ord(char) < _LINE and char not in "\t\r\n" for char in text):
        return "hex", hexdump(data)
    return "text", text


def hexdump(data: bytes) -> str:
    """Sixteen bytes a line: position, hex, text."""
    lines = []
    for at in range(0, min(len(data), _LONGEST // 5), 16):
        chunk = data[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in chunk)
        lines.append(f"{at:08x}  {chunk.hex(' '):<47}  {shown}")
    return "\n".join(lines)


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… cut here"


def show_message(
    message: ReadMessage, wanted: str, registry: SchemaRegistry | None
) -> ShownMessage:
    record, batch = message.record, message.batch
    return ShownMessage(
        message.partition,
        record.offset,
        record.timestamp,
        show_data(record.key, wanted, registry),
        show_data(record.value, wanted, registry),
        [(name, _header(value)) for name, value in record.headers],
        batch.leader_epoch,
        batch.producer_id,
        batch.codec,
        batch.is_transactional,
    )


def _header(value: bytes | None) -> str:
    return "null" if value is None else value.decode("utf-8", "backslashreplace")


def for_filter(message: ShownMessage) -> dict[str, Any]:
    """The fields that filters see."""
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": message.key.text,
        "value": message.value.text,
        "headers": dict(message.headers),
    }
