"""The Go client franz-go, built with the Go of this machine."""

import re
from functools import cache
from pathlib import Path
from typing import Final

from barnabas.bench.compare.client_driver import Driver, Unavailable
from barnabas.bench.compare.driver_cache import SOURCES, built, found_tool, output

_NAME: Final = "franz_go"
_PROGRAM: Final = "driver"
_BUILD: Final = ("build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", _PROGRAM, ".")
_MODULE: Final = re.compile(r"github\.com/twmb/franz-go v(\S+)")


@cache
def franz_go() -> Driver | Unavailable:
    """The driver, or why it is unavailable; builds it at most once."""
    try:
        go = found_tool("go")
        toolchain = output([go, "version"], _reason, SOURCES / _NAME, GOWORK="off")
        folder = built(_NAME, toolchain, lambda copy: _build(go, copy))
    except Unavailable as reason:
        return reason
    protocols = frozenset({"classic", "consumer"})
    return Driver("franz-go", (str(folder / _PROGRAM),), _version(), protocols=protocols)


def _build(go: str, folder: Path) -> None:
    output([go, *_BUILD], _reason, folder, GOWORK="off", CGO_ENABLED="0")


def _reason(said: str) -> str:
    lines = (line.strip() for line in said.splitlines())
    return next((line for line in lines if line and not _is_progress(line)), "")


def _is_progress(line: str) -> bool:
    return line.startswith(("go: downloading", "#"))


def _version() -> str:
    found = _MODULE.search((SOURCES / _NAME / "go.mod").read_text())
    return found[1] if found else ""
