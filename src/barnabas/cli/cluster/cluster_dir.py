"""The folder of a cluster on this machine: who uses it, each broker's files, pids and ports."""

import contextlib
import fcntl
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from barnabas.base.ports import free_port
from barnabas.cli.cluster.cluster_properties import HOST, Choices, broker_properties
from barnabas.cli.exit_codes import CommandFailed, Misused

# How far a broker's port for metrics is from the one for clients.
METRICS_PORTS_ABOVE: Final = 1000


@dataclass(frozen=True, slots=True)
class BrokerFiles:
    """Where one broker's things are: its own folder, and beside that its pid."""

    broker_id: int
    port: int
    cluster: Path
    metrics_port: int | None = None

    @property
    def folder(self) -> Path:
        return self.cluster / f"broker-{self.broker_id}"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    @property
    def pid(self) -> Path:
        return self.cluster / f"broker-{self.broker_id}.pid"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def metrics_address(self) -> str | None:
        return None if self.metrics_port is None else f"{HOST}:{self.metrics_port}"

    def write(self, choices: Choices) -> None:
        """Make the broker's folder, with the properties it is started with."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = broker_properties(
            choices, self.broker_id, self.port, self.data, self.properties, self.metrics_address
        )
        self.properties.write_text(text)

    def last_lines(self, count: int) -> list[str]:
        """The end of the broker's log, if there is one."""
        if not self.log.exists():
            return []
        return self.log.read_text(errors="replace").splitlines()[-count:]

    @property
    def is_in_use(self) -> bool:
        """Whether a broker, whoever started it, has the data open."""
        lock = self.data / ".lock"
        try:
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False


class ClusterFolder:
    """Held by one `barnabas cluster` at a time, from `open` to `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.zookeeper = self.path / "zookeeper"
        self.zookeeper_pid = self.path / "zookeeper.pid"
        self._lock: IO[str] | None = None

    def open(self) -> None:
        """Take the folder, and make it if it is not there.

        Raises  Misused if it cannot be one; CommandFailed, nothing held, if another cluster or
                what is left of one uses it
        """
        if self.path.exists() and not self.path.is_dir():
            raise Misused(f"--data {self.path}: this is a file, a folder is needed")
        if (self.path / "meta.properties").exists():
            raise Misused(
                f"{self.path} holds the data of a single broker; start that one"
                " with `barnabas server --data`, or choose another folder"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        # Opened to append: whoever fails to get the lock must not wipe the holder's number.
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
                " stop that one, or choose another folder with --data"
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
        """The brokers of earlier runs that are not among the first `count`."""
        numbers = [path.name.removeprefix("broker-") for path in self.path.glob("broker-*/")]
        return sorted((n for n in numbers if n.isdigit() and int(n) >= count), key=int)

    def _refuse_leftovers(self) -> None:
        """Forget the pids of what has ended; refuse to start beside what has not."""
        running = list(self._running())
        if running:
            names = ", ".join(f"{name} (pid {pid})" for name, pid in running)
            raise CommandFailed(
                f"of an earlier run in {self.path} there still runs {names};"
                f" end it with: kill {' '.join(str(pid) for _, pid in running)}"
            )
        for path in sorted(self.path.glob("broker-*/")):
            number = path.name.removeprefix("broker-")
            if number.isdigit() and BrokerFiles(int(number), 0, self.path).is_in_use:
                raise CommandFailed(
                    f"broker {number} of {self.path} runs already, started by hand; stop it first"
                )

    def _running(self) -> Iterator[tuple[str, int]]:
        for path in sorted(self.path.glob("*.pid")):
            text = path.read_text().strip()
            # A number may have gone to another process since; ours names this folder.
            if text.isdigit() and f"{self.path}/" in _command_line(int(text)):
                yield path.stem, int(text)
            else:
                path.unlink()


def _command_line(pid: int) -> str:
    """What a process was started with; nothing if it has ended."""
    if Path("/proc/self/cmdline").exists():
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
        return ""
    found = subprocess.run(
        ["ps", "-ww", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False
    )
    return found.stdout


def choose_ports(base_port: int, count: int) -> list[int]:
    """`count` ports from `base_port` on, or any that are free if it is 0.

    Raises  CommandFailed, naming them, if some are in use
    """
    if base_port + count - 1 > 65535:
        raise Misused(f"--base-port {base_port}: there is no port {base_port + count - 1}")
    wanted = [base_port + number if base_port else free_port(HOST) for number in range(count)]
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in wanted]
        taken = [port for port, probe in zip(wanted, probes, strict=True) if not _bind(probe, port)]
        ports: list[int] = [probe.getsockname()[1] for probe in probes]
    if taken:
        which = f"port {taken[0]} is" if not taken[1:] else f"ports {_listed(taken)} are"
        raise CommandFailed(f"{which} in use; choose others with --base-port (0: any free ones)")
    return ports


def choose_metrics_ports(ports: list[int]) -> list[int]:
    """One beside each broker's own: 1000 above it, or any other where that one is not free."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in (*ports, *ports)]
        for port, probe in zip(ports, probes, strict=False):
            _bind(probe, port)  # so that it is not taken for free
        chosen = probes[len(ports) :]
        for port, probe in zip(ports, chosen, strict=True):
            above = port + METRICS_PORTS_ABOVE
            if above > 65535 or not _bind(probe, above):
                _bind(probe, 0)
        return [probe.getsockname()[1] for probe in chosen]


def _listed(ports: list[int]) -> str:
    return ", ".join(map(str, ports))


def _bind(probe: socket.socket, port: int) -> bool:
    # As the broker does: connections that linger after a stop do not keep it from its port.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HOST, port))
    except OSError:
        return False
    return True
