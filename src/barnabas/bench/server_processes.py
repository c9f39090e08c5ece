"""Server processes under test, and their CPU time and memory."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

BROKER: Final = Path(sys.executable).with_name("barnabas")
PATIENCE_S: Final = 20.0
LAST_LINES: Final = 5
LOOK_S: Final = 0.5
IDLE_SHARE: Final = 0.05
HAS_PROC: Final = Path("/proc/self/stat").exists()


class ServerFailed(Exception):
    """A server did not start."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server that has printed its `ready` line."""

    pid: int
    port: int
    ready_s: float  # from spawning it to its `ready` line

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def running(command: Sequence[str | Path], log: Path) -> Iterator[Server]:
    """A server from its `ready ... listening on HOST:PORT` line until the end of the block.

    Raises ServerFailed, no process left, if it exits or times out before that line. Exceptions of
    the block get the end of the server's log as a note.
    """
    start = time.perf_counter()
    process = spawn(command, log)
    assert process.stdout is not None
    try:
        port = listening_port(process.stdout)
        yield Server(process.pid, port, time.perf_counter() - start)
    except Exception as problem:
        problem.add_note(last_words(log))
        raise
    finally:
        stop(process)
        process.stdout.close()


@contextmanager
def broker(folder: Path, *overrides: str) -> Iterator[Server]:
    """A Barnabas broker with data and log in `folder`."""
    command = [str(BROKER), "server", "--listen", "127.0.0.1:0", "--data", str(folder / "broker")]
    for override in overrides:
        command += ["--override", override]
    with running(command, folder / "broker.log") as server:
        yield server


def spawn(command: Sequence[str | Path], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as errors:
        try:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        except FileNotFoundError as missing:
            raise ServerFailed(f"{command[0]} not found; install it with `make venv`") from missing


def listening_port(stdout: IO[bytes], patience_s: float = PATIENCE_S) -> int:
    # Reads the pipe itself: a buffered reader could hold the line while select waits for more.
    text = b""
    deadline = time.monotonic() + patience_s
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            arrived = os.read(stdout.fileno(), 65536)
            text += arrived
            for line in text.split(b"\n")[:-1]:
                if line.startswith(b"ready") and b"listening on " in line:
                    return int(line.rsplit(b":", 1)[1].split()[0])
            if not arrived:
                break
    raise ServerFailed("the server printed no `ready` line")


def last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    return "\n".join(["the server's log ends with:", *lines]) if lines else "its log is empty"


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_ended(process: subprocess.Popen[bytes], patience_s: float = PATIENCE_S) -> None:
    """Wait for a server after SIGTERM. Raises ServerFailed, and kills it, on timeout."""
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise ServerFailed(f"a broker did not stop within {patience_s:g} s of SIGTERM") from None


def settle(server: Server, seconds: float) -> None:
    """Wait this long for the deferred work of a broker's start, and until the broker is idle.

    Does not wait for 0 seconds. Idleness needs /proc.
    """
    if not seconds:
        return
    time.sleep(seconds)
    deadline = time.monotonic() + PATIENCE_S
    while HAS_PROC and time.monotonic() < deadline:
        used = cpu_seconds(server.pid)
        time.sleep(LOOK_S)
        if cpu_seconds(server.pid) - used < IDLE_SHARE * LOOK_S:
            return


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; needs /proc, as `cpu_seconds` does."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def most_resident_bytes(pid: int) -> int:
    """Peak resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, all threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_nanoseconds(pid: int) -> int:
    """CPU time from the scheduler's statistics, for short measurements; else in clock ticks.

    Excludes threads that have ended.
    """
    told = list(Path(f"/proc/{pid}/task").glob("*/schedstat"))
    if not told:
        return int(1e9 * cpu_seconds(pid))
    return sum(int(each.read_text().split()[0]) for each in told)


def serving_seconds(pid: int) -> float:
    """CPU time of the serving thread in nanosecond resolution; 0 if the kernel lacks it."""
    told = Path(f"/proc/{pid}/schedstat")
    return int(told.read_text().split()[0]) / 1e9 if told.exists() else 0.0
