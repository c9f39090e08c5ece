"""A broker in its own process, as users run it: stopped, killed and restarted."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from barnabas.base.ports import free_port
from tests.support.waiting import suspend

READY_WITHIN_S: Final = 90.0
STOPPED_WITHIN_S: Final = 60.0
SHOWN_LINES: Final = 60

# The broker ends with its parent, even if that is killed: its standard input ends.
_LAUNCH: Final = """
import os, threading
threading.Thread(target=lambda: os._exit(len(os.read(0, 1)) + 9), daemon=True).start()
from barnabas.cli.main import main
main()
"""


class BrokerProcess:
    """One broker on a free port of 127.0.0.1; it keeps its port and directory over restarts."""

    def __init__(
        self,
        folder: Path,
        overrides: Sequence[str] = (),
        *,
        node_id: int = 0,
        zookeeper: str | None = None,
        prelude: str = "",
    ) -> None:
        """`prelude` is code that the process runs before the broker.

        `python` may be set to the interpreter of an environment that has another release.
        """
        self.python = sys.executable
        self.folder = folder
        self.node_id = node_id
        self._zookeeper = zookeeper
        self._prelude = prelude
        self.data = folder / "data"
        self.port = free_port()  # reserved over restarts
        self.overrides = list(overrides)
        self._stderr = folder / "stderr"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_folders(self) -> list[Path]:
        """The log directory: an override, or `data`."""
        given = [each.partition("=")[2] for each in self.overrides if each.startswith("log.dirs=")]
        return [Path(folder) for folder in given[-1].split(",")] if given else [self.data]

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and return when it serves clients. Raises AssertionError, nothing left running."""
        self.launch()
        self.wait_ready()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it; at the end of the block it must stop cleanly."""
        try:
            self.start()
            yield
            self.stop()
        finally:
            self.close()

    def launch(self) -> None:
        """Start without waiting, so that several can start in parallel."""
        assert self._process is None, "the broker runs already"
        self._process = self._launch()

    def wait_ready(self) -> None:
        try:
            ready = self._first_line()
            assert ready.startswith("ready "), f"no ready line but {ready!r}{self.log_tail()}"
        except BaseException:
            self.kill()
            raise
        self.port = int(ready.rpartition(":")[2])

    def stop(self) -> None:
        """Send SIGTERM; the broker must exit with 0 and must not have logged a traceback."""
        code = self._end(signal.SIGTERM)
        assert code == 0, f"exit code {code}{self.log_tail()}"
        assert "Traceback" not in self.log(), self.log_tail()

    def pause(self) -> None:
        """Send SIGSTOP."""
        suspend(self.pid)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL: unwritten data is lost."""
        self._end(signal.SIGKILL)

    def reap(self) -> None:
        """Forget a process that has exited by itself, so that it can be started again."""
        if self._process is not None and self._process.poll() is not None:
            _close_pipes(self._process)
            self._process = None

    def close(self) -> None:
        """End the process, in whatever state the test left it."""
        if self._process is not None:
            self.kill()

    def fail_to_start(self) -> tuple[int, str]:
        """Run a broker that exits by itself; return its exit code and output."""
        process = self._launch()
        try:
            process.wait(READY_WITHIN_S)
        finally:
            process.kill()
            process.wait()
            _close_pipes(process)
        return process.returncode, self.log()

    def log(self) -> str:
        return self._stderr.read_text(errors="replace") if self._stderr.exists() else ""

    def log_tail(self) -> str:
        lines = self.log().splitlines()[-SHOWN_LINES:]
        return "\n".join(["", f"--- stderr of the broker at {self.bootstrap} ---", *lines])

    def segments(self, topic: str, partition: int = 0) -> bytes:
        """All log segments of one partition on disk."""
        files = sorted((self.data / f"{topic}-{partition}").glob("*.log"))
        return b"".join(file.read_bytes() for file in files)

    def _launch(self) -> "subprocess.Popen[bytes]":
        options = ["--listen", self.bootstrap, "--data", str(self.data)]
        options += ["--node-id", str(self.node_id)]
        if self._zookeeper is not None:
            options += ["--zookeeper", self._zookeeper]
        for override in self.overrides:
            options += ["--override", override]
        with self._stderr.open("ab") as stderr:
            return subprocess.Popen(
                [self.python, "-c", self._prelude + _LAUNCH, "server", *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    def _first_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + READY_WITHIN_S
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                left = deadline - time.monotonic()
                assert left > 0, f"not ready within {READY_WITHIN_S} s{self.log_tail()}"
                if selector.select(left):
                    read = os.read(self._process.stdout.fileno(), 4096)
                    assert read, f"ended before it was ready{self.log_tail()}"
                    line += read
        return line.decode().strip()

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None, "the broker does not run"
        process.send_signal(number)
        try:
            return process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(
                f"{number.name} did not end the broker within {STOPPED_WITHIN_S} s{self.log_tail()}"
            ) from None
        finally:
            _close_pipes(process)


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
