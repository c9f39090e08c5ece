"""Messages as people read them: JSON, text, hex, or decoded with a schema."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from barnabas.console.messages.record_reader import ReadMessage
from barnabas.console.messages.schema_registry import SchemaRegistry, UnknownSchema

FORMATS: Final = ("auto", "json", "text", "hex")
_LONGEST: Final = 20_000
# Longer JSON is shown as it came: to indent it takes long, and little of it is shown.
_LONGEST_JSON: Final = 256 * 1024
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class ShownData(NamedTuple):
    """A key or a value: how it was read, the text of the page, and the bytes' size."""

    kind: str
    text: str
    size: int
    is_cut: bool = False


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
    decoded = _decoded(data, registry) if wanted == "auto" else None
    kind, text = decoded or _text(data, wanted)
    is_cut = len(text) > _LONGEST or (kind == "hex" and len(data) > _LONGEST // 5)
    shown = f"{text[:_LONGEST]}\n… cut here" if is_cut else text
    return ShownData(kind, shown, len(data), is_cut)


def _decoded(data: bytes, registry: SchemaRegistry | None) -> tuple[str, str] | None:
    """The kind of schema and the value as JSON; None if it cannot be decoded."""
    if registry is None or not registry.is_framed(data):
        return None
    try:
        kind, decoded = registry.decode(data)
        return kind, _indented(decoded)
    except (UnknownSchema, ValueError, RecursionError):
        return None


def _indented(value: Any) -> str:
    """Half of a surrogate pair, which JSON can escape but UTF-8 cannot encode, stays escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode()


def _text(data: bytes, wanted: str) -> tuple[str, str]:
    if wanted == "hex":
        return "hex", hexdump(data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "hex", hexdump(data)
    if wanted in ("auto", "json") and text[:1] in "{[" and len(text) <= _LONGEST_JSON:
        try:
            return "JSON", _indented(json.loads(text))
        except (ValueError, RecursionError):
            pass
    if wanted == "auto" and _CONTROL.search(text):
        return "hex", hexdump(data)
    return "text", text


def hexdump(data: bytes) -> str:
    """Sixteen bytes a line: position, hex, text; of the first few thousand bytes."""
    lines = []
    for at in range(0, min(len(data), _LONGEST // 5), 16):
        chunk = data[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in chunk)
        lines.append(f"{at:08x}  {chunk.hex(' '):<47}  {shown}")
    return "\n".join(lines)


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


def for_filter(message: ReadMessage, registry: SchemaRegistry | None) -> dict[str, Any]:
    """The fields that filters see: whole, and not formatted for people."""
    record = message.record
    return {
        "partition": message.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _whole(record.key, registry)[0],
        "value": _whole(record.value, registry)[0],
        "headers": [(name, _header(each)) for name, each in record.headers],
    }


def for_download(message: ReadMessage, registry: SchemaRegistry | None) -> dict[str, Any]:
    """The same fields; bytes that are no text are in hex, and nothing is lost."""
    fields = for_filter(message, registry)
    fields["headers"] = [_header_fields(name, each) for name, each in message.record.headers]
    for name, data in (("key", message.record.key), ("value", message.record.value)):
        encoding = _whole(data, registry)[1]
        fields[f"{name}_encoding"] = encoding
        if encoding == "hex" and data is not None:
            fields[name] = data.hex()
    return fields


def _header_fields(name: str, data: bytes | None) -> dict[str, str | None]:
    text, encoding = _whole(data, None)
    value = data.hex() if data is not None and encoding == "hex" else text
    return {"name": name, "value": value, "value_encoding": encoding}


def _whole(data: bytes | None, registry: SchemaRegistry | None) -> tuple[str | None, str]:
    """The text of a key or a value, and how it was read; of other bytes what is ASCII in them."""
    if data is None:
        return None, "null"
    if (decoded := _decoded(data, registry)) is not None:
        return decoded[1], decoded[0]
    try:
        return data.decode(), "text"
    except UnicodeDecodeError:
        return data.decode("ascii", "backslashreplace"), "hex"
