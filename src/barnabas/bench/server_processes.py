"""Starts the servers under test as processes of their own, and tells what they use."""

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
    """A server did not come up."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server that said it is ready."""

    pid: int
    port: int
    ready_s: float  # from spawning it to its `ready` line

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def running(command: Sequence[str | Path], log: Path) -> Iterator[Server]:
    """A server, from its `ready ... listening on HOST:PORT` line until the block ends.

    Raises ServerFailed, with no process left, if it ends or stays silent before that line.
    What is raised in the block gets the server's last words as a note.
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
    """Barnabas, with its data and its log in `folder`."""
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
            raise ServerFailed(f"there is no {command[0]}; `make venv` installs it") from missing


def listening_port(stdout: IO[bytes]) -> int:
    # Reads the pipe itself: a buffered reader could hold the line while select waits for more.
    text = b""
    deadline = time.monotonic() + PATIENCE_S
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


def wait_ended(process: subprocess.Popen[bytes]) -> None:
    """For one that has its SIGTERM. Raises ServerFailed, and kills it, if it does not end."""
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise ServerFailed(f"a broker did not end within {PATIENCE_S:g} s of SIGTERM") from None


def settle(server: Server, seconds: float) -> None:
    """Wait so long, for work that a broker leaves for later, and until the broker is idle.

    Not at all for 0 seconds; without /proc nobody can tell whether it is idle.
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
    """Memory of a process that is in RAM; needs /proc, as `cpu_seconds` does."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def most_resident_bytes(pid: int) -> int:
    """The most that it ever had of that, as the kernel remembers it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def cpu_seconds(pid: int) -> float:
    """CPU time that a process used so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_nanoseconds(pid: int) -> int:
    """The same as the scheduler counts it, for short times; in clock ticks where it does not.

    The time of threads that have ended is not in it.
    """
    told = list(Path(f"/proc/{pid}/task").glob("*/schedstat"))
    if not told:
        return int(1e9 * cpu_seconds(pid))
    return sum(int(each.read_text().split()[0]) for each in told)


def serving_seconds(pid: int) -> float:
    """CPU time of the thread that serves, to the nanosecond; 0 where the kernel does not tell."""
    told = Path(f"/proc/{pid}/schedstat")
    return int(told.read_text().split()[0]) / 1e9 if told.exists() else 0.0
