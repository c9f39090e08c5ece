"""Reads the command line of a broker, if that is only options with a value each.

Typer does all else, and does this too: but it, and what it judges values with, takes a fifth of
the time in which a broker starts, and a third of its memory. Whatever is not plain is left to it,
so that mistakes are told in one way only.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

# Which parameter of `serve` an option is, and its type: as `server_command` has them for typer.
OPTIONS: Final[Mapping[str, tuple[str, type]]] = {
    flag: (name, kind)
    for flags, name, kind in (
        (("--config", "-c"), "config", Path),
        (("--listen", "-l"), "listen", str),
        (("--data", "-d"), "data", Path),
        (("--node-id", "-n"), "node_id", int),
        (("--zookeeper", "-z"), "zookeeper", str),
        (("--metrics", "-m"), "metrics", str),
        (("--override", "-o"), "override", list),
    )
    for flag in flags
}


def plain_options(arguments: Sequence[str]) -> dict[str, Any] | None:
    """What to call `serve` with; None if this is not for us to say."""
    if len(arguments) % 2:
        return None
    given: dict[str, Any] = {}
    for flag, value in zip(arguments[::2], arguments[1::2], strict=True):
        if flag not in OPTIONS or not _is_plain(value):
            return None
        name, kind = OPTIONS[flag]
        if kind is list:
            given.setdefault(name, []).append(value)
        elif name in given or (kind is int and not value.isdecimal()):
            return None
        else:
            given[name] = kind(value)
    return given


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable() and value != "" and not value.startswith("-")
