"""A filter in a process of its own, with bounds on memory and processor time.

It prints a line when it is ready. Then a line of JSON goes in, a list of messages, and a line comes
out, the indexes of those that are kept.
`python -m barnabas.console.messages.filter_process KIND TEXT` is the process.
"""

import asyncio
import contextlib
import json
import math
import resource
import sys
from typing import Any, Final, Self

from barnabas.base.errors import BarnabasError
from barnabas.console.messages.filter_language import WrongFilter, compile_filter

_MEMORY: Final = 768 * 1024 * 1024
_BATCH_S: Final = 5
_START_S: Final = 30
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
        started = cls(process)
        try:
            await started._line(_START_S)  # Python starts slowly on a busy machine
        except BaseException:
            await started.close()
            raise
        return started

    async def keep(self, messages: bytes) -> list[int]:
        """The indexes of the messages that the filter keeps; they are as `for_filter` has them,
        in a list, as JSON. Raises FilterStopped."""
        assert self._process.stdin is not None
        self._process.stdin.write(messages + b"\n")
        found: list[int] = await self._line(2 * _BATCH_S)
        return found

    async def _line(self, within_s: float) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(within_s):
                await self._process.stdin.drain()
                return json.loads(await self._process.stdout.readline())
        except (TimeoutError, ValueError, ConnectionError):
            raise FilterStopped(
                f"the filter was stopped: it may take {_BATCH_S} seconds for a batch and"
                f" {_MEMORY // 2**20} MiB of memory"
            ) from None

    async def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def main(kind: str, text: str) -> None:
    if sys.platform != "darwin":  # macOS does not limit memory so
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    keeps = compile_filter(kind, text)
    print("[]", flush=True)
    for line in sys.stdin:
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = math.ceil(used.ru_utime + used.ru_stime) + _BATCH_S
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        messages = json.loads(line)
        print([n for n, message in enumerate(messages) if keeps(message)], flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except WrongFilter as wrong:
        sys.exit(str(wrong))
