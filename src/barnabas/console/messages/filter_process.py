"""A filter in a process of its own, with bounds on memory and processor time.

A line of JSON goes in, a list of messages; a line comes out, the indexes of those that are kept.
`python -m barnabas.console.messages.filter_process KIND TEXT` is the process.
"""

import asyncio
import contextlib
import json
import resource
import sys
from collections.abc import Sequence
from typing import Any, Final, Self

from barnabas.base.errors import BarnabasError
from barnabas.console.messages.filter_language import WrongFilter, compile_filter

_MEMORY: Final = 768 * 1024 * 1024
_PROCESSOR_S: Final = 30
_BATCH_S: Final = 5.0
_LINE: Final = 64 * 1024 * 1024


class FilterStopped(BarnabasError):
    """The filter took too long, or too much memory."""


class FilterProcess:
    """One filter, from `start` to `close`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, kind: str, text: str) -> Self:
        """Raises WrongFilter, nothing started"""
        compile_filter(kind, text)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "barnabas.console.messages.filter_process",
            kind,
            text,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LINE,
        )
        return cls(process)

    async def keep(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """The indexes of the messages that the filter keeps. Raises FilterStopped."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(messages).encode() + b"\n")
            async with asyncio.timeout(_BATCH_S):
                await self._process.stdin.drain()
                line = await self._process.stdout.readline()
            found: list[int] = json.loads(line)
        except (TimeoutError, ValueError, ConnectionError):
            raise FilterStopped(
                f"the filter was stopped: it may take {_BATCH_S:g} seconds for a batch and"
                f" {_MEMORY // 2**20} MiB of memory"
            ) from None
        return found

    async def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def main(kind: str, text: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_S, _PROCESSOR_S))
    keeps = compile_filter(kind, text)
    for line in sys.stdin:
        messages = json.loads(line)
        print([n for n, message in enumerate(messages) if keeps(message)], flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except WrongFilter as wrong:
        sys.exit(str(wrong))
