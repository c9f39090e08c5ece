"""The directory of a local cluster: its lock, each broker's files, pids and ports."""

import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from barnabas.base.ports import free_port
from barnabas.base.private_files import write_private
from barnabas.cli.cluster.cluster_properties import HOST, ClusterSettings, broker_properties
from barnabas.cli.exit_codes import CommandFailed, Misused

# l_type, l_whence, l_start, l_len and l_pid of Linux's struct flock.
_FLOCK: Final = struct.Struct("hhqqi4x")
# A broker's metrics port is this far above its client port.
METRICS_PORTS_ABOVE: Final = 1000


@dataclass(frozen=True, slots=True)
class BrokerFiles:
    """Paths and addresses of one broker: its directory, and its pid file beside it."""

    broker_id: int
    port: int
    cluster: Path
    metrics_port: int | None = None

    @property
    def directory(self) -> Path:
        return self.cluster / f"broker-{self.broker_id}"

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "broker.log"

    @property
    def pid(self) -> Path:
        return self.cluster / f"broker-{self.broker_id}.pid"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def metrics_address(self) -> str | None:
        return None if self.metrics_port is None else f"{HOST}:{self.metrics_port}"

    def write(self, settings: ClusterSettings) -> None:
        """Create the broker's directory and its server.properties."""
        self.directory.mkdir(parents=True, exist_ok=True)
        text = broker_properties(
            settings, self.broker_id, self.port, self.data, self.properties, self.metrics_address
        )
        write_private(self.properties, text)

    def last_lines(self, count: int) -> list[str]:
        """The last lines of the broker's log; empty if there is no log."""
        if not self.log.exists():
            return []
        return self.log.read_text(errors="replace").splitlines()[-count:]

    @property
    def _lock(self) -> Path:
        return self.data / ".lock"

    @property
    def is_in_use(self) -> bool:
        """True if a running broker holds the lock of the log directory."""
        try:
            with self._lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def holder(self) -> int | None:
        """The pid of the broker that holds the lock; None where the system does not report it."""
        if sys.platform != "linux":
            return None  # struct flock differs
        with self._lock.open("rb") as file:
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_, pid = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
        return pid if kind != fcntl.F_UNLCK and pid > 0 else None


class ClusterDir:
    """A cluster's directory, locked by one `barnabas cluster` from `open` to `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.zookeeper = self.path / "zookeeper"
        self.zookeeper_pid = self.path / "zookeeper.pid"
        self._lock: IO[str] | None = None

    def open(self) -> None:
        """Lock the directory; create it if missing.

        Raises  Misused if the path cannot be a cluster's directory; CommandFailed, lock released,
                if another cluster, or a process left over from one, uses it
        """
        if self.path.exists() and not self.path.is_dir():
            raise Misused(f"--data {self.path}: not a directory")
        if (self.path / "meta.properties").exists():
            raise Misused(
                f"{self.path} is the log directory of a single broker; start it"
                " with `barnabas server --data`, or specify another directory"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        # Opened for append: failing to get the lock must not erase the holder's pid.
        lock = (self.path / "cluster.lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._refuse_leftovers()
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise CommandFailed(
                f"{self.path} is in use by another `barnabas cluster` (pid {holder});"
                " stop it, or specify another directory with --data"
            ) from None
        except CommandFailed:
            lock.close()
            raise
        lock.truncate(0)
        print(os.getpid(), file=lock, flush=True)
        self._lock = lock

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def brokers(self, ports: list[int]) -> list[BrokerFiles]:
        chosen = zip(ports, choose_metrics_ports(ports), strict=True)
        return [
            BrokerFiles(number, port, self.path, metrics)
            for number, (port, metrics) in enumerate(chosen)
        ]

    def left_out(self, count: int) -> list[str]:
        """Ids of brokers from earlier runs that are not among the first `count`."""
        numbers = [path.name.removeprefix("broker-") for path in self.path.glob("broker-*/")]
        return sorted((n for n in numbers if n.isdigit() and int(n) >= count), key=int)

    def _refuse_leftovers(self) -> None:
        """Remove stale pid files. Raises CommandFailed if a broker of an earlier run is alive."""
        running = list(self._running())
        if running:
            names = ", ".join(f"{name} (pid {pid})" for name, pid in running)
            raise CommandFailed(
                f"still running from an earlier run in {self.path}: {names};"
                f" stop with: kill {' '.join(str(pid) for _, pid in running)}"
            )
        for path in sorted(self.path.glob("broker-*/")):
            number = path.name.removeprefix("broker-")
            if not number.isdigit():
                continue
            files = BrokerFiles(int(number), 0, self.path)
            if files.is_in_use:
                pid = files.holder()
                stop = "stop it first" if pid is None else f"stop it with: kill {pid}"
                raise CommandFailed(
                    f"broker {number} of {self.path} is already running, started by hand; {stop}"
                )

    def _running(self) -> Iterator[tuple[str, int]]:
        for path in sorted(self.path.glob("*.pid")):
            pid = self._pid_in(path)
            if pid is not None:
                yield path.stem, pid
            else:
                path.unlink()

    def pid_of(self, broker_id: int) -> int | None:
        """The process of a broker that `barnabas cluster` runs here; None if there is none."""
        return self._pid_in(BrokerFiles(broker_id, 0, self.path).pid)

    def _pid_in(self, path: Path) -> int | None:
        """The pid in a file, if it is of a process of ours."""
        try:
            text = path.read_text().strip()
        except OSError:
            return None
        # The pid may have been reused; our processes name this directory.
        is_ours = text.isdigit() and f"{self.path}/" in _command_line(int(text))
        return int(text) if is_ours else None


def _command_line(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    if Path("/proc/self/cmdline").exists():
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
        return ""
    found = subprocess.run(
        ["ps", "-ww", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False
    )
    return found.stdout


def choose_ports(base_port: int, count: int) -> list[int]:
    """`count` consecutive ports from `base_port` on; free ports if it is 0.

    Raises  CommandFailed, listing the ports, if some are in use
    """
    if base_port + count - 1 > 65535:
        raise Misused(f"--base-port {base_port}: port {base_port + count - 1} is out of range")
    wanted = [base_port + number if base_port else free_port(HOST) for number in range(count)]
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in wanted]
        taken = [port for port, probe in zip(wanted, probes, strict=True) if not _bind(probe, port)]
        ports: list[int] = [probe.getsockname()[1] for probe in probes]
    if taken:
        which = f"port {taken[0]} is" if not taken[1:] else f"ports {_listed(taken)} are"
        raise CommandFailed(f"{which} in use; choose others with --base-port (0 picks free ports)")
    return ports


def choose_metrics_ports(ports: list[int]) -> list[int]:
    """A metrics port per broker: 1000 above its client port, or a free port if that is taken."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in (*ports, *ports)]
        for port, probe in zip(ports, probes, strict=False):
            _bind(probe, port)  # keeps the client ports out of the choice
        chosen = probes[len(ports) :]
        for port, probe in zip(ports, chosen, strict=True):
            above = port + METRICS_PORTS_ABOVE
            if above > 65535 or not _bind(probe, above):
                _bind(probe, 0)
        return [probe.getsockname()[1] for probe in chosen]


def _listed(ports: list[int]) -> str:
    return ", ".join(map(str, ports))


def _bind(probe: socket.socket, port: int) -> bool:
    # As the broker does: connections in TIME_WAIT do not block the port.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HOST, port))
    except OSError:
        return False
    return True
