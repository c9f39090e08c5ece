"""The C load generator, and the C ideal server that brokers are compared with."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from barnabas.bench.limits.load_messages import Exchange, LoadBatch
from barnabas.bench.limits.native_build import program
from barnabas.bench.server_processes import Server, running


class LoadFailed(Exception):
    """A server returned a wrong response or none; the message says which."""


@dataclass(frozen=True, slots=True)
class ConnectionLoad:
    """Each connection keeps `window` requests in flight until either limit."""

    connections: int
    window: int
    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The checked responses of a run."""

    requests: int
    seconds: float
    client_cpu_seconds: float
    p50_us: float
    p99_us: float
    max_us: float

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def client_busy(self) -> float:
        """The generator's share of busy time; near 1, the generator is the limit."""
        return self.client_cpu_seconds / self.seconds


def drive(
    server: Server, exchange: Exchange, load: ConnectionLoad, folder: Path, batches: int = 1
) -> LoadResult:
    """Run the generator against `server`; connection N writes to partition N, all fetch from 0.

    Raises LoadFailed if a response is wrong, late, or has an error code.
    """
    fetching = exchange.ask_at > 0
    frames = folder / "frames"
    frames.write_bytes(
        b"".join(exchange.request_for(0 if fetching else n) for n in range(load.connections))
    )
    arguments = {
        "port": server.port,
        "frames": frames,
        "connections": load.connections,
        "window": load.window,
        "requests": load.requests,
        "seconds": load.seconds,
        "reply_head": exchange.offset_at + 8,
        "error_at": exchange.error_at,
        "offset_at": exchange.offset_at,
        "step": exchange.step,
        "ask_at": exchange.ask_at,
        "batches": batches,
    }
    command = [str(program("load")), *(f"{name}={value}" for name, value in arguments.items())]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise LoadFailed(
            result.stderr.strip() or f"the load generator exited with code {result.returncode}"
        )
    return LoadResult(**json.loads(result.stdout))


@contextmanager
def ideal_server(exchange: Exchange, folder: Path, log: Path) -> Iterator[Server]:
    """The C ideal for one exchange: it writes `log`, or fetches from it."""
    reply = folder / "reply"
    reply.write_bytes(exchange.reply)
    arguments = {
        "mode": "fetch" if exchange.ask_at else "produce",
        "log": log,
        "reply": reply,
        "frame": len(exchange.request),
        "records_at": exchange.records_at,
        "records": exchange.records,
        "step": exchange.step,
        "offset_at": exchange.offset_at,
        "ask_at": exchange.ask_at,
    }
    command = [str(program("ideal")), *(f"{name}={value}" for name, value in arguments.items())]
    with running(command, folder / "ideal.log") as server:
        yield server


def write_log(path: Path, batch: LoadBatch, count: int) -> None:
    """A log of `count` batches with a broker's offsets."""
    with path.open("wb") as log:
        for number in range(count):
            log.write(batch.at(number * batch.records))
