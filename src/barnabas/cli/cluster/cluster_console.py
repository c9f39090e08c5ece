"""The console of a local cluster: a process beside the brokers, which ends with them."""

import asyncio
import contextlib
import sys
from pathlib import Path


class ClusterConsole:
    """`barnabas console` for the brokers of a cluster, with changes allowed."""

    def __init__(self, listen: str, directory: Path, client_properties: Path | None) -> None:
        self._listen = listen
        self._directory = directory
        self._client_properties = client_properties
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, bootstrap: str) -> None:
        """Start it; it prints its own `ready ... http://HOST:PORT/` on stdout."""
        options = ["-b", bootstrap, "--listen", self._listen, "--write"]
        if self._client_properties is not None:
            options += ["--command-config", str(self._client_properties)]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "barnabas.cli.main",
            "console",
            *options,
            "--data",
            str(self._directory),
            "--cluster",
            str(self._directory),
            "--audit-log",
            str(self._directory / "console-audit.jsonl"),
            stdin=asyncio.subprocess.DEVNULL,
        )

    async def stop(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()
