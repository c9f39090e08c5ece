"""The entry point of `barnabas server`, and a parser for its plain command lines.

Loading typer and pydantic takes a fifth of a broker's start time and a third of its memory.
Command lines of options with one value each are therefore parsed here; everything else is left
to typer, so that errors are worded in one place. The broker's modules are imported by `serve`.
"""

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from barnabas.cli.exit_codes import Misused

# The parameter of `serve` and its type for each option; `server_command` declares the same.
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


def serve(
    config: Path | None = None,
    listen: str | None = None,
    data: Path | None = None,
    node_id: int | None = None,
    zookeeper: str | None = None,
    metrics: str | None = None,
    override: Sequence[str] = (),
) -> int:
    """Run a broker; return the exit code. Raises Misused."""
    # Objects of modules live forever: keep the garbage collector from scanning them repeatedly.
    gc.disable()
    from barnabas.base.errors import ConfigError
    from barnabas.cli.server.server_run import server

    gc.freeze()
    gc.enable()

    try:
        return server(config, listen, data, node_id, zookeeper, override, metrics)
    except ConfigError as error:
        raise Misused(str(error)) from None


def plain_options(
    arguments: Sequence[str], known: Mapping[str, tuple[str, type]] = OPTIONS
) -> dict[str, Any] | None:
    """The arguments for `serve`, or the function of the `known` options; None if typer must parse
    the command line."""
    if len(arguments) % 2:
        return None
    given: dict[str, Any] = {}
    for flag, value in zip(arguments[::2], arguments[1::2], strict=True):
        if flag not in known or not _is_plain(value):
            return None
        name, kind = known[flag]
        if kind is list:
            given.setdefault(name, []).append(value)
        elif name in given or (kind is int and not value.isdecimal()):
            return None
        else:
            given[name] = kind(value)
    return given


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable() and value != "" and not value.startswith("-")
