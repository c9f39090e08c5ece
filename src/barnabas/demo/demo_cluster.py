"""The demo's cluster: `barnabas cluster` with three brokers, one of which is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from barnabas.cli.exit_codes import CommandFailed

BROKERS: Final = 3
_READY_WITHIN_S: Final = 180.0
_STOPPED_WITHIN_S: Final = 30.0


class DemoCluster:
    """`barnabas cluster` on free ports, and the broker that is killed and restarted.

    `stop` ends every process that was started, in any state.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bootstrap = ""
        self._log = directory.with_name(f"{directory.name}.log")
        self._all = _Server(
            self._log,
            "cluster",
            *("--brokers", str(BROKERS), "--base-port", "0", "--data", str(directory)),
        )
        self._returned: _Server | None = None

    def launch(self) -> None:
        """Start the cluster without waiting for it. Call in the main thread."""
        with _undisturbed():
            self._all.launch()

    def wait_until_ready(self) -> None:
        """Wait until all brokers serve. Raises CommandFailed if they do not."""
        self.bootstrap = self._all.wait_ready().rpartition(" ")[2]

    def kill(self, broker_id: int) -> None:
        """Send SIGKILL to a broker: no controlled shutdown, no flush."""
        os.kill(int((self.directory / f"broker-{broker_id}.pid").read_text()), signal.SIGKILL)

    def launch_again(self, broker_id: int) -> None:
        """Restart a killed broker on its log directory, without waiting for it."""
        properties = self.directory / f"broker-{broker_id}" / "server.properties"
        self._returned = _Server(self._log, "server", "--config", str(properties))
        self._returned.launch()

    def wait_until_returned(self) -> None:
        """Wait until the restarted broker serves. Raises CommandFailed if it does not."""
        assert self._returned is not None
        self._returned.wait_ready()

    def stop(self) -> None:
        """Stop all processes."""
        running = [each for each in (self._returned, self._all) if each is not None]
        for each in running:
            each.terminate()
        for each in running:
            each.wait()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Defer SIGINT and SIGTERM: `stop` would not know a half-started process."""
    came: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for received in came:
            signal.raise_signal(received)


class _Server:
    """One `barnabas` command that prints `ready ...` and serves until SIGTERM."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._command: Sequence[str] = (sys.executable, "-m", "barnabas.cli.main", *arguments)
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def launch(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # only the demo gets Ctrl-C, and stops its servers
            )

    def wait_ready(self) -> str:
        """The `ready ...` line. Raises CommandFailed, with the log's last line, if it exits."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        watchdog = threading.Timer(_READY_WITHIN_S, process.terminate)
        watchdog.start()
        try:
            line = process.stdout.readline().strip()
        finally:
            watchdog.cancel()
        if not line.startswith("ready"):
            self.wait()
            last = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
            what = self._command[3]
            raise CommandFailed(f"{what} failed to start: {last or 'no output'}")
        return line

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def wait(self) -> None:
        """Wait for the process to exit; terminate it again, then kill it, if it takes too long."""
        if self._process is None:
            return
        for hurry in (self._process.terminate, self._process.kill):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOPPED_WITHIN_S)
                break
            hurry()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
