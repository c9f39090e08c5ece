"""A run of `barnabas pipeline` that the console started."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from barnabas.config.properties import format_properties

_KEPT_LINES: Final = 200
_LONGEST_LINE: Final = 1024 * 1024


class PipelineRun:
    """A process of `barnabas pipeline` that this console started, and its last lines."""

    def __init__(
        self, name: str, command: list[str], process: asyncio.subprocess.Process, config: Path
    ) -> None:
        self.name = name
        self.command = command
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process = process
        self._config = config
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, name: str, command: list[str], properties: Mapping[str, str]) -> Self:
        """Start it as the cluster's user with these properties, which no other user can read."""
        descriptor, path = tempfile.mkstemp(prefix="barnabas-pipeline-", suffix=".properties")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(format_properties(properties))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "barnabas.cli.main",
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=os.environ | {"BARNABAS_COMMAND_CONFIG": path},
            limit=_LONGEST_LINE,
        )
        return cls(name, command, process, Path(path))

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                self.lines.append(line.decode("utf-8", "replace").rstrip())
            await self._process.wait()
        finally:
            self._config.unlink(missing_ok=True)

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
