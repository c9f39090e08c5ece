"""A process that writes to a log until it is killed, and notes down what it was promised.

Run as a program it waits, warm, for orders: a line `[seed, folder, journal]` makes it fork a
writer; it tells the process id, and once that has ended, how. The journal outlives the writer:

    opened START END     the log, as the writer found it
    appended BASE END CRC    a batch is acknowledged
    flushed OFFSET       all below is on disk
    starting OFFSET      the log's start is about to be moved there
    truncating OFFSET    the log is about to be cut there
    truncated END        it was
"""

import gc
import json
import os
import random
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from crc32c import crc32c

from barnabas.base.ids import BrokerId, LeaderEpoch, Offset
from barnabas.base.randomness import Random
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import RealDisk
from barnabas.log.background_work import Flush
from barnabas.log.log import Log
from barnabas.log.logs import Logs
from barnabas.wire.records.batch import read_header
from barnabas.wire.records.records import Record, build_batch
from tests.log.batches import NOW, PARTITION

CONFIG: Final = replace(
    TopicConfig(), segment_bytes=16_384, segment_index_bytes=600, index_interval_bytes=400
)
CLUSTER: Final = "lkc-abcdefghijklmnopqr"
# Nobody waits for a writer that was forgotten: it ends by itself.
MOST_STEPS: Final = 200_000
PRODUCERS: Final = (-1, -1, -1, 1, 2, 3)
VALUES: Final = random.Random(0).randbytes(20_000)


class StoppedClock:
    def now_ms(self) -> int:
        return NOW


def open_logs(folder: Path) -> tuple[Logs, Log]:
    """The log in `folder`, by all that its checkpoints say, or an empty one."""
    logs = Logs([RealDisk(str(folder))], clock=StoppedClock(), random=Random(1))
    logs.acquire(BrokerId(0), CLUSTER)
    for removal in logs.open_all(lambda topic: CONFIG):
        removal.run()
    return logs, logs.get(PARTITION) or logs.create(PARTITION, None, CONFIG)


def next_batch(log: Log, source: random.Random) -> memoryview:
    """A batch that a producer may send next, be it idempotent or not."""
    count, size = source.randint(1, 4), source.choice((0, 30, 100, 100, 200, 300, 300, 6000))
    timestamp = NOW + source.randint(-500, 500) + log.log_end_offset
    values = (VALUES[at : at + size] for at in (source.randrange(15_000) for _ in range(count)))
    records = [Record(n, timestamp + n, b"key", value) for n, value in enumerate(values)]
    producer_id = source.choice(PRODUCERS)
    if producer_id < 0:
        return memoryview(build_batch(records))
    state = log.producers.producers.get(producer_id)
    epoch, sequence = (state.producer_epoch, state.next_sequence) if state else (0, 0)
    if source.random() < 0.02:
        epoch, sequence = epoch + 1, 0
    return memoryview(
        build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


class Writer:
    """Does at random what a broker does to a log, all that blocks in another thread."""

    def __init__(self, logs: Logs, log: Log, journal: int, source: random.Random) -> None:
        self.logs = logs
        self.log = log
        self.epoch = max(log.epochs.latest, 0)
        self._journal = journal
        self._source = source
        # One thread, so that checkpoints are written in the order in which they were true.
        self._pool = ThreadPoolExecutor(1)
        self._flushes: list[tuple[Flush, Future[None]]] = []
        self._steps: list[tuple[Callable[[], None], float]] = [
            (self.append, 80),
            (self.flush, 6),
            (self.checkpoint, 3),
            (self.roll, 1),
            (self.begin_epoch, 1),
            (self.delete_records, 1),
            (self.retain, 1),
            (self.truncate, 1),
        ]

    def run(self) -> None:
        self.note("opened", self.log.log_start_offset, self.log.log_end_offset)
        steps, weights = zip(*self._steps, strict=True)
        for _ in range(MOST_STEPS):
            (step,) = self._source.choices(steps, weights)
            step()
            self.end_flushes()

    def note(self, *words: object) -> None:
        os.write(self._journal, (" ".join(map(str, words)) + "\n").encode())

    def append(self) -> None:
        batch = next_batch(self.log, self._source)
        appended = self.log.append(batch, read_header(batch), LeaderEpoch(self.epoch), NOW)
        self.note("appended", *appended[:2], crc32c(batch))

    def flush(self) -> None:
        flush = self.log.start_flush(rolled_only=self._source.random() < 0.3)
        self._flushes.append((flush, self._pool.submit(flush.run)))

    def end_flushes(self) -> None:
        while self._flushes and self._flushes[0][1].done():
            flush, future = self._flushes.pop(0)
            future.result()
            self.log.on_flushed(flush, NOW)
            self.note("flushed", self.log.recovery_point)

    def checkpoint(self) -> None:
        for write in self.logs.checkpoints.writes({}):
            self._pool.submit(write.run)

    def roll(self) -> None:
        self.log.roll(NOW)

    def begin_epoch(self) -> None:
        self.epoch += self._source.randint(1, 2)

    def delete_records(self) -> None:
        offset = self._between(0.3)
        self.note("starting", offset)
        self.log.delete_records_before(offset)

    def retain(self) -> None:
        kept = self._source.choice((0, 40_000, 100_000, 200_000))
        self.log.config = replace(CONFIG, retention_bytes=kept)
        deletable = self.log.deletable_segments(NOW, self.log.log_end_offset)
        if deletable:
            self.note("starting", deletable[-1].end_offset)
        removal = self.log.delete_segments(deletable, NOW)
        if removal and self._source.random() < 0.7:
            self._pool.submit(removal.run)
        self.log.config = CONFIG

    def truncate(self) -> None:
        offset = self._between(1.0, nearer_the_end=True)
        self.note("truncating", offset)
        removal = self.log.truncate_to(offset, NOW)
        self.note("truncated", self.log.log_end_offset)
        self._flushes.clear()
        if self._source.random() < 0.5:  # otherwise the next append sees to it
            settling = self.logs.checkpoints.start_truncation_sync([self.log])
            self._pool.submit(settling.run).result()
            settling.done()
        if removal and self._source.random() < 0.7:
            self._pool.submit(removal.run)

    def _between(self, share: float, *, nearer_the_end: bool = False) -> Offset:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        part = self._source.random() ** (0.1 if nearer_the_end else 1) * share
        return Offset(start + int(part * (end - start)))


def write(seed: int, folder: str, journal_path: str) -> None:
    """Write to the log in `folder` until killed."""
    journal = os.open(journal_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    logs, log = open_logs(Path(folder))
    Writer(logs, log, journal, random.Random(seed)).run()


def main() -> None:
    gc.freeze()
    for order in sys.stdin:
        process_id = os.fork()
        if not process_id:
            try:
                write(*json.loads(order))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(process_id, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
