"""Entries and damage found by dumping a file, as text or JSON."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from barnabas.cli.show import show_time


class DumpEntry(NamedTuple):
    """One line of a dump. Timestamps are in ms; keys and values of records are bytes."""

    kind: str
    fields: Mapping[str, object]


class Damage(NamedTuple):
    """A corruption and where it begins; what follows is dumped as far as it is readable."""

    position: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.position is None else f"at byte {self.position}, {self.message}"


Dump = Iterator[DumpEntry | Damage]

_PARTS: Final = ("record", "marker")  # inside the batch before them
_NULLABLE: Final = ("key", "value")  # null is printed: no key, or a tombstone


def entry_as_json(file: str, entry: DumpEntry) -> str:
    """One line of JSON; bytes that are not UTF-8 become {"base64": ...}."""
    fields = {"file": file, "kind": entry.kind, **entry.fields}
    return json.dumps(fields, default=_json_bytes, ensure_ascii=False)


def _json_bytes(data: object) -> object:
    if not isinstance(data, bytes):
        return str(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def entry_as_text(entry: DumpEntry) -> str:
    """One line: the kind, then name=value for each field that is set."""
    indent = "  " if entry.kind in _PARTS else ""
    shown = [
        f"{name}={_show(name, value)}"
        for name, value in entry.fields.items()
        if name in _NULLABLE or (value is not None and value is not False)
    ]
    return " ".join([indent + entry.kind, *shown])


def _show(name: str, value: object) -> str:
    match value:
        case True:
            return "yes"
        case int() if name.endswith("timestamp"):
            return show_time(value)
        case bytes():
            return _show_bytes(value)
        case list():
            return "[" + ", ".join(f"{key}={_show('', data)}" for key, data in value) + "]"
        case None:
            return "null"
    return str(value)


def _show_bytes(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return json.dumps(text, ensure_ascii=not text.isprintable())
