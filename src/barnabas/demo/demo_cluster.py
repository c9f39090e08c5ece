"""The demo's cluster: three brokers and ZooKeeper as a user would start them, and one killed."""

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
# A dead broker is noticed when its session ends. A cluster's usual six seconds would be most of
# what the demo shows.
SESSION_TIMEOUT_MS: Final = 3_000
_READY_WITHIN_S: Final = 180.0
_STOPPED_WITHIN_S: Final = 30.0


class DemoCluster:
    """`barnabas cluster` on free ports in a folder, and one of its brokers that comes back.

    Whatever has been started is ended by `stop`, in any state.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bootstrap = ""
        self._log = folder.with_name(f"{folder.name}.log")
        self._all = _Server(
            self._log,
            "cluster",
            *("--brokers", str(BROKERS), "--base-port", "0", "--data", str(folder)),
            *("--override", f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}"),
        )
        self._returned: _Server | None = None

    def launch(self) -> None:
        """Start all; does not wait for them. To be called in the main thread."""
        with _undisturbed():
            self._all.launch()

    def wait_until_ready(self) -> None:
        """Return when all brokers serve. Raises CommandFailed if they do not."""
        self.bootstrap = self._all.wait_ready().rpartition(" ")[2]

    def kill(self, broker_id: int) -> None:
        """SIGKILL for a broker: no goodbye, no flush."""
        os.kill(int((self.folder / f"broker-{broker_id}.pid").read_text()), signal.SIGKILL)

    def launch_again(self, broker_id: int) -> None:
        """Start a broker that was killed on what it had; does not wait for it."""
        properties = self.folder / f"broker-{broker_id}" / "server.properties"
        self._returned = _Server(self._log, "server", "--config", str(properties))
        self._returned.launch()

    def wait_until_returned(self) -> None:
        """Return when the broker launched again serves. Raises CommandFailed if it does not."""
        assert self._returned is not None
        self._returned.wait_ready()

    def stop(self) -> None:
        """Nothing runs on return."""
        running = [each for each in (self._returned, self._all) if each is not None]
        for each in running:
            each.terminate()
        for each in running:
            each.wait()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that end the demo come after it: of a process half started `stop` would not know."""
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
    """One `barnabas` command that says when it is ready, and serves until SIGTERM."""

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
                start_new_session=True,  # Ctrl-C is for the demo, which then stops its servers
            )

    def wait_ready(self) -> str:
        """The line in which it says so. Raises CommandFailed, with its last line, if it ends."""
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
            raise CommandFailed(f"the {what} did not start: {last or 'it said nothing'}")
        return line

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def wait(self) -> None:
        """Return when it has ended; what does not end in time is made to, a cluster with all."""
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
