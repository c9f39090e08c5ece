"""A Go program of the tests over franz-go, built once for its content and the Go at hand."""

import hashlib
import shutil
from pathlib import Path
from typing import Final

import pytest

from barnabas.bench.build_cache import kept
from barnabas.bench.compare.client_driver import Unavailable
from barnabas.bench.compare.driver_cache import SOURCES, found_tool, output

_MODULES: Final = SOURCES / "franz_go"  # its go.mod and go.sum pin the client
_BUILD: Final = ("build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", "program", ".")


def go_program(source: Path) -> Path:
    """The program of one Go file; skips the test if it cannot be built."""
    try:
        go = found_tool("go")
        version = output([go, "version"], str.strip, source.parent, GOWORK="off")
        return kept(
            f"go-{source.parent.name}-{_hash(source, version)}", lambda at: _made(go, source, at)
        )
    except Unavailable as why:
        pytest.skip(f"no Go program: {why}")


def _made(go: str, source: Path, folder: Path) -> Path:
    for each in (source, _MODULES / "go.mod", _MODULES / "go.sum"):
        shutil.copy(each, folder)
    output([go, *_BUILD], str.strip, folder, GOWORK="off", CGO_ENABLED="0")
    return folder / "program"


def _hash(source: Path, version: str) -> str:
    content = hashlib.sha256(version.encode())
    for each in (source, _MODULES / "go.mod", _MODULES / "go.sum"):
        content.update(each.read_bytes())
    return content.hexdigest()[:16]
