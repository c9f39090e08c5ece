"""Programs in other languages, built on first use."""

import hashlib
import os
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from barnabas.bench.build_cache import kept
from barnabas.bench.compare.client_driver import Unavailable

SOURCES: Final = Path(__file__).parents[1] / "drivers"
BUILT_WITHIN_S: Final = 300.0
_REASON_WIDTH: Final = 160


def built(name: str, toolchain: str, build: Callable[[Path], None]) -> Path:
    """The directory with the files of `drivers/NAME` and what `build` adds to a copy of them.

    Built once for each content of these files and each `toolchain`. Raises Unavailable, nothing
    kept, if `build` does.
    """

    def make(work: Path) -> Path:
        copy = work / name
        shutil.copytree(SOURCES / name, copy)
        build(copy)
        return copy

    return kept(f"{name}-{_content_hash(SOURCES / name, toolchain)}", make)


def output(
    command: Sequence[str], reason: Callable[[str], str], cwd: Path, **environment: str
) -> str:
    """Run a tool and return its stdout.

    Raises Unavailable with one line if it fails; `reason` finds it in what the tool printed.
    """
    tool = Path(command[0]).name
    try:
        ended = subprocess.run(
            command,
            cwd=cwd,
            env=_with(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=BUILT_WITHIN_S,
            text=True,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{tool} did not end within {BUILT_WITHIN_S:.0f} s") from None
    if ended.returncode != 0:
        said = reason(ended.stderr) or f"exit code {ended.returncode}"
        raise Unavailable(f"{tool} failed: {textwrap.shorten(said, _REASON_WIDTH)}")
    return ended.stdout


def found_tool(name: str) -> str:
    """The path of a program. Raises Unavailable."""
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"{name} not found")
    return path


def _with(environment: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **environment}


def _content_hash(folder: Path, toolchain: str) -> str:
    content = hashlib.sha256(toolchain.encode())
    for path in sorted(folder.iterdir()):
        content.update(f"\n{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return content.hexdigest()[:16]
