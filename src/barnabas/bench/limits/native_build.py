"""The C programs of the bench, compiled on first use and cached by source hash."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parents[1] / "native"
FLAGS: Final = ("-O2", "-std=c11", "-Wall", "-Wextra")


class NoCompiler(Exception):
    """The C programs cannot be compiled; the message says why in one line."""


def program(name: str) -> Path:
    """The compiled program of `native/NAME.c`.

    Raises NoCompiler, nothing left behind, without cc or if it fails.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler("no C compiler (cc) found")
    built = _cache() / f"{name}-{_content_hash(name)}"
    if not built.exists():
        _compile(compiler, SOURCES / f"{name}.c", built)
    return built


def _cache() -> Path:
    """The cache directory: the package's own directory may not be writable."""
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
