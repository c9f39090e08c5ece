"""A broker in a process of its own, to be frozen, killed and started again by the demo."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from barnabas.cli.failures import CommandFailed

_START_TIMEOUT_S: Final = 20.0


class BrokerProcess:
    """One broker over one folder; it keeps its port when it is started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = "127.0.0.1:0"
        self._log = folder.parent / "broker.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it and wait until it is ready; returns the line in which it says so.

        Raises  CommandFailed, with the last line of its log, if it ends or takes too long
        """
        command = [sys.executable, "-m", "barnabas.cli.main", "server"]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*command, "--listen", self.address, "--data", str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the demo, which then stops its broker
            )
        line = self._ready_line()
        self.address = line.rpartition(" ")[2]
        return line

    def kill(self) -> None:
        """SIGKILL: no goodbye, no flush."""
        self._signal(signal.SIGKILL)
        self._wait()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Leave nothing running, whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self._process.terminate()
            try:
                self._process.wait(_START_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._wait()

    def _ready_line(self) -> str:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        # A broker that hangs at its start is killed, which ends the wait for its line.
        watchdog = threading.Timer(_START_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            line = process.stdout.readline().strip()
        finally:
            watchdog.cancel()
        if not line.startswith("ready"):
            self._wait()
            last = self._log.read_text().strip().rpartition("\n")[2]
            raise CommandFailed(f"the broker did not start: {last or 'it said nothing'}")
        return line

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def _wait(self) -> None:
        if self._process is not None:
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
