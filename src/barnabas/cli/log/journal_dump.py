"""Dump of the embedded znode tree's journal: the nodes of its snapshot, then its changes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from barnabas.base.checksum import crc32c
from barnabas.cli.log.dump_result import Damage, Dump, DumpEntry
from barnabas.znodes.embedded.journal import FORMAT, MAGIC

_CHANGES: Final = {"+": "create", "=": "change", "-": "delete"}
_NODE: Final = ("path", "value", "czxid", "mzxid", "version", "children_ever", "owner")
_CHANGE: Final = ("path", "value", "owner")


def dump_journal(path: Path) -> Dump:
    """One entry per node of the snapshot and per change since.

    A bad line is damage only if a good one follows: a crash may tear the last line.

    Raises  ValueError if the file is not a journal
    """
    lines = list(_read_lines(path.read_bytes()))
    bad = [position for position, record in lines if record is None]
    good = [(position, record) for position, record in lines if record is not None]
    if not good or good[0][1][:2] != [MAGIC, FORMAT]:
        raise ValueError(f"not a {MAGIC} of format {FORMAT}")
    _, _, zxid, nodes = good[0][1]
    yield DumpEntry("snapshot", {"zxid": zxid, "nodes": nodes})
    for number, (_, record) in enumerate(good[1:]):
        if number < nodes:
            yield DumpEntry("node", _named(_NODE, record))
        else:
            yield from _dump_transaction(*record)
    for position in bad:
        if position < good[-1][0]:
            yield Damage(position, "corrupt line before the end")
        else:
            yield DumpEntry("torn", {"position": position})


def _dump_transaction(zxid: int, changes: list[list[Any]]) -> Dump:
    for kind, *fields in changes:
        yield DumpEntry(_CHANGES[kind], {"zxid": zxid, **_named(_CHANGE, fields)})


def _named(names: tuple[str, ...], fields: list[Any]) -> dict[str, object]:
    named = dict(zip(names, fields, strict=False))
    if "value" in named:
        named["value"] = named["value"].encode("utf-8", "surrogateescape")
    return named


def _read_lines(data: bytes) -> Iterator[tuple[int, Any]]:
    """The position and record of each line; None for a wrong CRC or length."""
    position = 0
    for line in data.splitlines(keepends=True):
        head, body = line[:18], line[18:].removesuffix(b"\n")
        is_good = line.endswith(b"\n") and head == b"%08x %08x " % (crc32c(body), len(body))
        yield position, json.loads(body) if is_good else None
        position += len(line)
