"""Dumps the journal of the embedded tree: its snapshot node by node, then change by change."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from barnabas.base.checksum import crc32c
from barnabas.cli.log.dump_result import Damage, Dump, Entry
from barnabas.znodes.embedded.journal import FORMAT, MAGIC

_CHANGES: Final = {"+": "create", "=": "change", "-": "delete"}
_NODE: Final = ("path", "value", "czxid", "mzxid", "version", "children_ever", "owner")
_CHANGE: Final = ("path", "value", "owner")


def dump_journal(path: Path) -> Dump:
    """A line for each node of the snapshot and for each change since.

    Only a bad line with a good one behind it is damage: a crash may tear the last one.

    Raises  ValueError if the file is no journal
    """
    lines = list(_read_lines(path.read_bytes()))
    bad = [position for position, record in lines if record is None]
    good = [(position, record) for position, record in lines if record is not None]
    if not good or good[0][1][:2] != [MAGIC, FORMAT]:
        raise ValueError(f"it does not begin as {MAGIC} of format {FORMAT} does")
    _, _, zxid, nodes = good[0][1]
    yield Entry("snapshot", {"zxid": zxid, "nodes": nodes})
    for number, (_, record) in enumerate(good[1:]):
        if number < nodes:
            yield Entry("node", _named(_NODE, record))
        else:
            yield from _dump_transaction(*record)
    for position in bad:
        if position < good[-1][0]:
            yield Damage(position, "a bad line with a good one behind it")
        else:
            yield Entry("torn", {"position": position})


def _dump_transaction(zxid: int, changes: list[list[Any]]) -> Dump:
    for kind, *fields in changes:
        yield Entry(_CHANGES[kind], {"zxid": zxid, **_named(_CHANGE, fields)})


def _named(names: tuple[str, ...], fields: list[Any]) -> dict[str, object]:
    named = dict(zip(names, fields, strict=False))
    if "value" in named:
        named["value"] = named["value"].encode("utf-8", "surrogateescape")
    return named


def _read_lines(data: bytes) -> Iterator[tuple[int, Any]]:
    """Where each line begins, and its record; None if its CRC or length is not right."""
    position = 0
    for line in data.splitlines(keepends=True):
        head, body = line[:18], line[18:].removesuffix(b"\n")
        is_good = line.endswith(b"\n") and head == b"%08x %08x " % (crc32c(body), len(body))
        yield position, json.loads(body) if is_good else None
        position += len(line)
