"""The raw limits of this machine: loopback TCP, page-cache writes, fsync.

As a program it is the sender of the loopback measurement:
`python -m barnabas.bench.limits.raw_limits PORT BYTES`.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

CHUNK: Final = 1024 * 1024
FSYNCS: Final = 50


def loopback_bytes_per_second(size: int) -> float:
    """TCP between two processes over 127.0.0.1, a MiB per call."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-m", "barnabas.bench.limits.raw_limits", str(port), str(size)]
        with subprocess.Popen(command):
            connection, _ = listener.accept()
            with connection:
                return size / _timed(lambda: _receive(connection, size))


def _receive(connection: socket.socket, size: int) -> None:
    buffer = bytearray(CHUNK)
    while size > 0:
        received = connection.recv_into(buffer)
        if not received:
            raise ConnectionError("the sender closed the connection")
        size -= received


def _send(port: int, size: int) -> None:
    buffer = bytes(CHUNK)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while size > 0:
            connection.sendall(buffer[: min(size, CHUNK)])
            size -= CHUNK


def write_bytes_per_second(folder: Path, chunk: int, size: int) -> float:
    """Appending to a file in the page cache, `chunk` bytes per call; the file is deleted."""
    path = folder / "raw-write"
    buffer = bytes(chunk)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        count = max(1, size // chunk)
        seconds = _timed(lambda: [os.write(descriptor, buffer) for _ in range(count)])
        return count * chunk / seconds
    finally:
        os.close(descriptor)
        path.unlink()


def fsync_seconds(folder: Path) -> float:
    """The median time of an fsync after 4 KiB were appended."""
    path = folder / "raw-fsync"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        return median(_fsync_once(descriptor) for _ in range(FSYNCS))
    finally:
        os.close(descriptor)
        path.unlink()


def _fsync_once(descriptor: int) -> float:
    os.write(descriptor, bytes(4096))
    return _timed(lambda: os.fsync(descriptor))


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


if __name__ == "__main__":
    _send(int(sys.argv[1]), int(sys.argv[2]))
