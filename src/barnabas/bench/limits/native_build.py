"""Compiles the C programs of the bench on first use, and keeps them by the hash of their source."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parents[1] / "native"
FLAGS: Final = ("-O2", "-std=c11", "-Wall", "-Wextra")


class NoCompiler(Exception):
    """There is no C ideal on this machine; the message says why in one line."""


def program(name: str) -> Path:
    """The compiled program of `native/NAME.c`.

    Raises NoCompiler, nothing left behind, where there is no cc or it cannot compile it.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler("no C compiler (cc) found")
    built = _cache() / f"{name}-{_content_hash(name)}"
    if not built.exists():
        _compile(compiler, SOURCES / f"{name}.c", built)
    return built


def _cache() -> Path:
    """Where what was compiled stays: the package's own folder may not be ours to write to."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "barnabas-bench"


def _content_hash(name: str) -> str:
    content = hashlib.sha256(" ".join(FLAGS).encode())
    for source in (SOURCES / "bytes.h", SOURCES / f"{name}.c"):
        content.update(source.read_bytes())
    return content.hexdigest()[:16]


def _compile(compiler: str, source: Path, built: Path) -> None:
    built.parent.mkdir(parents=True, exist_ok=True)
    unfinished = built.with_suffix(f".{os.getpid()}")  # others may compile it at the same time
    command = [compiler, *FLAGS, "-o", str(unfinished), str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        first = next(iter(result.stderr.splitlines()), f"exit code {result.returncode}")
        raise NoCompiler(f"cc cannot compile {source.name}: {first}")
    unfinished.rename(built)  # so that a half-written program is never taken for a whole one
