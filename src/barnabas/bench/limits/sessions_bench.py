"""Consuming in a fetch session by the Java consumer's rules: six partitions compared with one.

Both topics hold the same data, read by the same client with one fetch in flight (`java_fetcher`).
Six partitions should be read as fast as one. If responses leave partitions out, the client fetches
only the drained ones, waits for `fetch.max.wait.ms`, and the ratio falls below a tenth.
"""

import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import Section, rate, ratio_row
from barnabas.bench.clusters.bench_topics import create_topic, log_end_offset
from barnabas.bench.limits.java_fetcher import FetchLimits, JavaFetcher
from barnabas.bench.limits.load_generator import LoadFailed
from barnabas.bench.limits.load_messages import CLIENT_ID, batch_of, produce
from barnabas.bench.server_processes import Server, broker, settle
from barnabas.client.fetch import BY_NAME, read_fetch_response, write_fetch_request
from barnabas.client.frames import ResponseBuffer

PARTITIONS: Final = 6
BATCH_BYTES: Final = 16 * 1024
PATIENCE_S: Final = 60.0
# Less than Java's 500 ms: near the end one partition may by chance be drained before the others,
# whatever the broker, and that one wait must not outweigh a run of some 20 ms.
LIMITS: Final = FetchLimits(max_wait_ms=20)


@dataclass(frozen=True, slots=True)
class Consumed:
    """One read of a whole topic."""

    seconds: float
    fetches: int
    empty_fetches: int


def sessions_section(bench: Bench) -> Section:
    batches = max(1, bench.plan.fetch_log_bytes // BATCH_BYTES // PARTITIONS)
    topics = {"one": 1, "six": PARTITIONS}
    size = batches * PARTITIONS * BATCH_BYTES
    rounds: list[dict[str, Consumed]] = []
    with bench.scratch() as folder, broker(folder) as server:
        settle(server, bench.plan.settle_seconds)
        for topic, partitions in topics.items():
            fill(server, topic, partitions, batches * PARTITIONS // partitions)
            consume(server, topic, partitions)  # once before it counts
        for number in bench.rounds("sessions"):
            order = list(topics.items())[:: 1 if number % 2 else -1]
            rounds.append({topic: consume(server, topic, count) for topic, count in order})
    one = median(each["one"].seconds for each in rounds)
    six = median(each["six"].seconds for each in rounds)
    row = ratio_row(
        f"{PARTITIONS} partitions",
        rate(size / six),
        rate(size / one),
        median(each["one"].seconds / each["six"].seconds for each in rounds),
        bytes_per_second=size / six,
        one_partition_bytes_per_second=size / one,
        fetches=median(each["six"].fetches for each in rounds),
        empty_fetches=median(each["six"].empty_fetches for each in rounds),
    )
    notes = (
        f"{size / 1e6:.0f} MB of 100 B records; one connection, one fetch in flight, the Java"
        f" consumer's rules; medians of {bench.plan.repeat}",
        f"{row.numbers['fetches']:.0f} fetches, {row.numbers['empty_fetches']:.0f} of them"
        " answered without a record",
    )
    title = "Consume in a fetch session"
    return Section("sessions", title, f"{PARTITIONS} partitions", "1 partition", [row], notes)


def fill(server: Server, topic: str, partitions: int, batches: int) -> None:
    """Create a topic with this many batches in each partition."""
    create_topic(server.bootstrap, topic, partitions)
    batch = batch_of(BATCH_BYTES)
    exchange = produce(batch, topic)
    with (
        socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as connection,
        connection.makefile("rb") as answers,
    ):
        for partition in range(partitions):
            request = exchange.request_for(partition)
            for _ in range(batches):
                connection.sendall(request)
                if len(answers.read(len(exchange.reply))) < len(exchange.reply):
                    raise LoadFailed("the broker closed the connection")
    end = log_end_offset(server.bootstrap, topic, partitions)
    if end != partitions * batches * batch.records:
        raise LoadFailed(f"{partitions * batches * batch.records} records sent, {end} in the log")


def consume(server: Server, topic: str, partitions: int) -> Consumed:
    """Read the topic from its first record to its last.

    Raises LoadFailed if a response is wrong or late, or repeats or skips a record.
    """
    records = log_end_offset(server.bootstrap, topic, partitions)
    fetcher = JavaFetcher(topic, range(partitions), LIMITS)
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as connection:
        frames = _Frames(connection)
        start = time.perf_counter()
        _consume(fetcher, records, connection.sendall, frames.receive)
        seconds = time.perf_counter() - start
    return Consumed(seconds, fetcher.fetches, fetcher.empty_fetches)


def _consume(
    fetcher: JavaFetcher,
    records: int,
    send: Callable[[bytes], object],
    receive: Callable[[float], memoryview | None],
) -> None:
    """The poll loop: it waits for a response only if nothing is buffered."""
    while records > 0:
        taken = fetcher.poll()
        records -= taken
        if (asked := fetcher.next_fetch()) is not None:
            fetch = asked.of_topic(fetcher.topic, fetcher.limits)
            send(write_fetch_request(BY_NAME, 0, CLIENT_ID.decode(), fetch))
        frame = receive(0.0 if taken else PATIENCE_S)
        if frame is not None:
            fetcher.on_answer(read_fetch_response(BY_NAME, frame[4:]))
        elif not taken:
            raise LoadFailed(f"no answer to a fetch within {PATIENCE_S:.0f} s")
    if records < 0:
        raise LoadFailed(f"{-records} records came twice")


class _Frames:
    """Frames that arrive on a connection while the client is busy."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = ResponseBuffer()

    def receive(self, wait_s: float) -> memoryview | None:
        """The next frame without its size; None if it is not complete in time."""
        deadline = time.perf_counter() + wait_s
        while (frame := self._buffer.next()) is None:
            left = max(0.0, deadline - time.perf_counter()) if wait_s else 0.0
            if not select.select([self._connection], [], [], left)[0]:
                return None
            received = self._connection.recv_into(self._buffer.writable())
            if not received:
                raise LoadFailed("the broker closed the connection")
            self._buffer.received(received)
        return frame
