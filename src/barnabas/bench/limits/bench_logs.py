"""Logs for the bench: opened as by a broker, and a sparse one of 10 GB."""

import os
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from barnabas.base.clock import SystemClock
from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.bench.limits.load_messages import BATCH_OVERHEAD, batch_of
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import RealDisk
from barnabas.log.flushes import EPOCH_CHECKPOINT
from barnabas.log.log import Log
from barnabas.log.producers.producer_snapshot import encode_snapshot
from barnabas.log.producers.producer_state import ProducerStates
from barnabas.log.recovery.log_loader import Opening, open_log

PARTITION: Final = TopicPartition("bench", 0)
BATCH_BYTES: Final = 16 * 1024
PRODUCERS_EXPIRE_MS: Final = 86_400_000


def open_partition(folder: Path, segment_bytes: int | None = None, *, clean: bool = True) -> Log:
    """The log of one partition in `folder`; after an unclean stop all of it is recovered."""
    disk = RealDisk(str(folder))
    disk.make_dir(str(PARTITION))
    config = TopicConfig()
    if segment_bytes is not None:
        config = replace(config, segment_bytes=segment_bytes)
    return open_log(
        disk,
        Opening(PARTITION, config, clean=clean),
        producers=ProducerStates(PRODUCERS_EXPIRE_MS),
        random=Random(1),
        now_ms=SystemClock().now_ms(),
    )


@dataclass(frozen=True, slots=True)
class SparseLog:
    """A log with complete indexes, but with the headers of only some batches.

    The rest is never read, and sparse in the file system.
    """

    log: Log
    # Offsets to look up, each with the base offset of its segment and its position in it.
    places: Sequence[tuple[int, int, int]]


def sparse_log(folder: Path, segments: int, segment_bytes: int, look_ups: int) -> SparseLog:
    batch = batch_of(BATCH_BYTES)
    count = segment_bytes // BATCH_BYTES
    source = random.Random(count)
    partition = folder / str(PARTITION)
    partition.mkdir()
    (partition / EPOCH_CHECKPOINT).write_text("0\n1\n0 0\n")
    index = b"".join(
        struct.pack(">ii", (number + 1) * batch.records - 1, number * BATCH_BYTES)
        for number in range(1, count)
    )
    places: list[tuple[int, int, int]] = []
    for base in range(0, segments * count * batch.records, count * batch.records):
        chosen = [source.randrange(count) for _ in range(look_ups // segments)]
        name = f"{base:020}"
        (partition / f"{name}.index").write_bytes(index)
        (partition / f"{name}.timeindex").write_bytes(b"")
        with (partition / f"{name}.log").open("wb") as file:
            file.truncate(count * BATCH_BYTES)
            for number in _and_neighbours([0, *chosen, count - 1], count):
                head = batch.at(base + number * batch.records)[:BATCH_OVERHEAD]
                os.pwrite(file.fileno(), head, number * BATCH_BYTES)
        places += (
            (
                base + number * batch.records + source.randrange(batch.records),
                base,
                number * BATCH_BYTES,
            )
            for number in chosen
        )
    # As a clean stop leaves it: without a snapshot of the producers the log would be read for them.
    end = segments * count * batch.records
    (partition / f"{end:020}.snapshot").write_bytes(encode_snapshot(()))
    source.shuffle(places)
    return SparseLog(open_partition(folder, segment_bytes), places)


def _and_neighbours(numbers: Sequence[int], count: int) -> Iterator[int]:
    """Each of `numbers` and those on either side, below `count`."""
    for number in numbers:
        yield from range(max(number - 1, 0), min(number + 2, count))
