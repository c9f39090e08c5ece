"""Another user of the brokers: one record produced and fetched at a steady pace, each round timed.

A program of its own, so that the attacker does not delay it: `python -m
barnabas.bench.attacks.attack_probe EVERY_MS TOPIC PORT...` uses partition n of the topic on the
n-th port until its stdin ends. It prints a line per round: broker, start, seconds, and 1 if both
requests were answered, else 0. Times are those of `time.perf_counter`.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.fetch import Fetch, write_fetch_request
from barnabas.client.produce import Produce, read_produce_response, write_produce_request
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchTopic
from barnabas.wire.records.records import Record, build_batch

EVERY_MS: Final = 20
ANSWERED_WITHIN_S: Final = 60.0
RETRIED_AFTER_S: Final = 0.02
_OVERDUE_S: Final = 1.0
_CLIENT: Final = "probe"
_PRODUCE_VERSION: Final = 9
_FETCH_VERSION: Final = 12


@dataclass(frozen=True, slots=True)
class Round:
    """One record's way to the broker and back."""

    start: float
    seconds: float
    is_served: bool

    @property
    def end(self) -> float:
        return self.start + self.seconds


@dataclass(frozen=True, slots=True)
class Latency:
    """The rounds of a period; NaN where there are none."""

    p50_s: float
    worst_s: float
    rounds: int
    unserved: int


@dataclass(slots=True)
class ProbeRounds:
    """All rounds so far, by broker."""

    rounds: dict[int, list[Round]] = field(default_factory=dict)

    def latency(self, since: float, until: float, broker: int = 0) -> Latency:
        """The rounds under way in this period; one that is not over counts as unserved."""
        known = self.rounds.get(broker, [])
        some = [each for each in known if each.start < until and each.end > since]
        if known and until - known[-1].end > _OVERDUE_S:
            some.append(Round(known[-1].end, until - known[-1].end, False))
        seconds = [each.seconds for each in some] or [float("nan")]
        unserved = sum(not each.is_served for each in some)
        return Latency(median(seconds), max(seconds), len(some), unserved)


@contextmanager
def probing(ports: Sequence[int], topic: str, every_ms: int = EVERY_MS) -> Iterator[ProbeRounds]:
    """Probe the brokers during the block; the first round is over when it begins."""
    command = [sys.executable, "-m", "barnabas.bench.attacks.attack_probe", str(every_ms), topic]
    found = ProbeRounds({number: [] for number in range(len(ports))})
    # Not of the terminal's process group: the parent ends it, also after Ctrl-C.
    with subprocess.Popen(
        [*command, *map(str, ports)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        reader = threading.Thread(target=_collect, args=(process, found))
        reader.start()
        try:
            while not all(found.rounds.values()) and process.poll() is None:
                time.sleep(RETRIED_AFTER_S)
            yield found
        finally:
            assert process.stdin is not None
            process.stdin.close()
            reader.join()


def _collect(process: "subprocess.Popen[str]", found: ProbeRounds) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        broker, start, seconds, is_served = line.split()
        found.rounds[int(broker)].append(Round(float(start), float(seconds), is_served == "1"))


def _probe(broker: int, port: int, topic: str, every_s: float, over: threading.Event) -> None:
    peer: BlockingConnection | None = None
    while not over.is_set():
        start = time.perf_counter()
        try:
            peer = peer or _connect(port)
            is_served = _round(peer, topic, broker)
        except PeerGone:
            peer, is_served = None, False
        seconds = time.perf_counter() - start
        line = f"{broker} {start:.6f} {seconds:.6f} {is_served:d}\n"
        os.write(sys.stdout.fileno(), line.encode())  # whole, though several threads write
        over.wait(max(0.0, every_s - seconds) if is_served else RETRIED_AFTER_S)


def _connect(port: int) -> BlockingConnection:
    return BlockingConnection.connect(
        "127.0.0.1",
        port,
        client_id=_CLIENT,
        connect_s=ANSWERED_WITHIN_S,
        response_s=ANSWERED_WITHIN_S,
    )


def _round(peer: BlockingConnection, topic: str, partition: int) -> bool:
    record = Record(0, time.time_ns() // 1_000_000, b"probe", b"v" * 100)
    produce = Produce(topic, partition, build_batch([record]), 1, 30_000)
    response = peer.exchange(
        lambda number: write_produce_request(_PRODUCE_VERSION, number, _CLIENT, produce)
    )
    produced = read_produce_response(_PRODUCE_VERSION, response)
    if produced.error is not ErrorCode.none:
        return False
    wanted = FetchPartition(partition, produced.base_offset, 1_000_000, -1, -1, -1)
    fetch = Fetch(500, 1, 1_000_000, [FetchTopic(topic, None, [wanted])])
    peer.exchange(lambda number: write_fetch_request(_FETCH_VERSION, number, _CLIENT, fetch))
    return True


def main(every_ms: int, topic: str, ports: Sequence[int]) -> None:
    over = threading.Event()
    threads = [
        threading.Thread(target=_probe, args=(number, port, topic, every_ms / 1e3, over))
        for number, port in enumerate(ports)
    ]
    for thread in threads:
        thread.daemon = True  # a broker that never answers does not hold up the end
        thread.start()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join(RETRIED_AFTER_S + every_ms / 1e3)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], [int(port) for port in sys.argv[3:]])
