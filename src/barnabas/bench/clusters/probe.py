"""A peer that sends ApiVersions to brokers every few milliseconds and records the longest wait.

ApiVersions needs only a turn of the broker's event loop, so a long wait means a blocked loop, or a
machine without a free core. The probe is a separate program, so that its parent does not delay it:
`python -m barnabas.bench.clusters.probe PORT...` probes until its stdin ends, and prints one line
of JSON.
"""

import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

EVERY_S: Final = 0.005
_LOOKS_UP_S: Final = 0.1  # from a wait for an answer, for the end of the probe
_REQUEST: Final = struct.Struct(">ihhih")  # size, API, version, correlation id, no client id
_API_VERSIONS: Final = 18


@dataclass(slots=True)
class Probed:
    """One broker: when it accepted (by `perf_counter`), and its longest response time."""

    listened_at: float = 0.0
    longest_s: float = 0.0
    answers: int = 0


class Probe:
    """The probe program, and its results once `probing` is over."""

    def __init__(self) -> None:
        self.found: list[Probed] = []


@contextmanager
def probing(ports: Sequence[int]) -> Iterator[Probe]:
    """Probe these brokers during the block; they may start to listen at any time in it."""
    command = [sys.executable, "-m", "barnabas.bench.clusters.probe", *map(str, ports)]
    probe = Probe()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        try:
            yield probe
        finally:
            told, _ = process.communicate()
        probe.found = [Probed(**each) for each in json.loads(told)]


def probe_broker(port: int, found: Probed, over: threading.Event) -> None:
    while not over.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                found.listened_at = found.listened_at or time.perf_counter()
                connection.settimeout(_LOOKS_UP_S)
                _ask_on(connection, found, over)
        except OSError:  # it does not listen yet, or not any more
            time.sleep(EVERY_S)


def _ask_on(connection: socket.socket, found: Probed, over: threading.Event) -> None:
    number = 0
    while not over.is_set():
        number += 1
        began = time.perf_counter()
        connection.sendall(_REQUEST.pack(_REQUEST.size - 4, _API_VERSIONS, 0, number, -1))
        is_answered = _take_answer(connection, over)
        found.longest_s = max(found.longest_s, time.perf_counter() - began)
        found.answers += is_answered
        time.sleep(EVERY_S)


def _take_answer(connection: socket.socket, over: threading.Event) -> bool:
    """Wait for a complete response; return without one when the probe is over."""
    buffer = b""
    while len(buffer) < 4 or len(buffer) < 4 + struct.unpack_from(">i", buffer)[0]:
        try:
            arrived = connection.recv(65536)
        except TimeoutError:
            if over.is_set():
                return False
            continue
        if not arrived:
            raise ConnectionError("the broker closed the connection")
        buffer += arrived
    return True


def main(ports: Sequence[int]) -> None:
    over, found = threading.Event(), [Probed() for _ in ports]
    threads = [
        threading.Thread(target=probe_broker, args=(port, each, over))
        for port, each in zip(ports, found, strict=True)
    ]
    for thread in threads:
        thread.start()
    sys.stdout.write("probing\n")
    sys.stdout.flush()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps([asdict(each) for each in found]) + "\n")


if __name__ == "__main__":
    main([int(port) for port in sys.argv[1:]])
