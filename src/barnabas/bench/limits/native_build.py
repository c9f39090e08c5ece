"""The C programs of the bench, compiled on first use and cached by source hash."""

import hashlib
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Final

from barnabas.bench.build_cache import kept

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
    make = partial(_compile, compiler, SOURCES / f"{name}.c")
    return kept(f"bench-{name}-{_content_hash(name)}", make)


def _content_hash(name: str) -> str:
    content = hashlib.sha256(" ".join(FLAGS).encode())
    for source in (SOURCES / "bytes.h", SOURCES / f"{name}.c"):
        content.update(source.read_bytes())
    return content.hexdigest()[:16]


def _compile(compiler: str, source: Path, work: Path) -> Path:
    built = work / source.stem
    command = [compiler, *FLAGS, "-o", str(built), str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        first = next(iter(result.stderr.splitlines()), f"exit code {result.returncode}")
        raise NoCompiler(f"cc cannot compile {source.name}: {first}")
    return built
