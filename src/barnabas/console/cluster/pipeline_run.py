"""A run of `barnabas pipeline` that the console started."""

import asyncio
import contextlib
import signal
from collections import deque
from typing import Final

_KEPT_LINES: Final = 200


class PipelineRun:
    """A process of `barnabas pipeline` that this console started, and its last lines."""

    def __init__(self, name: str, command: list[str], process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.command = command
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process = process
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.lines.append(line.decode("utf-8", "replace").rstrip())
        await self._process.wait()

    @property
    def state(self) -> str:
        code = self._process.returncode
        return "running" if code is None else "done" if code in (0, 130, 143) else "failed"

    @property
    def last_error(self) -> str:
        wrong = [line for line in self.lines if line.startswith("barnabas: ")]
        return wrong[-1].removeprefix("barnabas: ") if wrong else ""

    def stop(self) -> None:
        """A controlled end: Spark commits what it has done."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
