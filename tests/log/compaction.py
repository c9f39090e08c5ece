"""Compacting a log at once, on one thread, for the tests of this directory."""

from collections.abc import Iterable
from dataclasses import replace

from barnabas.base.ids import LeaderEpoch
from barnabas.log.cleaner.cleanable import LogToClean, decide_cleanable, plan_cleaning
from barnabas.log.cleaner.cleaner import Cleaning
from barnabas.log.cleaner.offset_map import OffsetMap
from barnabas.log.log import Appended, Log
from barnabas.wire.records.batch import read_header
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import Record, build_batch, read_records
from tests.log.batches import CONFIG, NOW, read_batches

COMPACT = replace(
    CONFIG,
    cleanup_policy=("compact",),
    segment_bytes=600,
    delete_retention_ms=1000,
    min_cleanable_dirty_ratio=0.0,
)
PLENTY = 24 * 1000  # memory for some 900 keys

Pair = tuple[str, str | None]


def append_pairs(
    log: Log, pairs: Iterable[Pair], *, timestamp: int = NOW, codec: Codec = Codec.NONE
) -> Appended:
    """Append one batch of keys and values; None deletes the key."""
    records = [
        Record(n, timestamp, key.encode(), None if value is None else value.encode())
        for n, (key, value) in enumerate(pairs)
    ]
    batch = memoryview(build_batch(records, codec=codec))
    return log.append(batch, read_header(batch), LeaderEpoch(0), NOW)


def choose(log: Log, now_ms: int = NOW) -> LogToClean:
    """The part of a log that may be cleaned, if its high watermark is its end."""
    log.producers.on_high_watermark(log.log_end_offset)
    unstable = log.producers.first_unstable_offset
    return decide_cleanable(log, log.log_end_offset if unstable is None else unstable, now_ms)


def begin_cleaning(
    log: Log, now_ms: int = NOW, *, memory: int = PLENTY, buffer_bytes: int = 1000
) -> Cleaning | None:
    """A pass over the log, if it has something to clean."""
    chosen = choose(log, now_ms)
    if not chosen.is_due:
        return None
    log.cleaning = Cleaning(plan_cleaning(chosen, now_ms), OffsetMap(memory), buffer_bytes)
    return log.cleaning


def clean(
    log: Log,
    now_ms: int = NOW,
    *,
    memory: int = PLENTY,
    buffer_bytes: int = 1000,
    flush: bool = True,
) -> Cleaning | None:
    """All of a pass; None if there is nothing to clean."""
    if flush:
        log.flush(NOW)
    cleaning = begin_cleaning(log, now_ms, memory=memory, buffer_bytes=buffer_bytes)
    if cleaning is not None:
        run(log, cleaning)
    return cleaning


def run(log: Log, cleaning: Cleaning) -> None:
    for _ in cleaning.map_keys():
        pass
    for group in cleaning.groups():
        for _ in cleaning.clean(group):
            pass
        swap = log.begin_swap(group, cleaning.take_cleaned())
        while not swap.is_done:
            swap.sync()
            log.continue_swap(swap)
        swap.sync()
    log.first_dirty_offset = cleaning.end_offset
    log.cleaning = None


def records_of(log: Log) -> list[Record]:
    """All records, those of control batches left out."""
    return [
        record
        for header, batch in read_batches(log)
        if not header.is_control
        for record in read_records(batch)
    ]


def pairs_of(log: Log) -> list[tuple[int, str, str | None]]:
    """Offset, key and value of all records."""
    return [
        (r.offset, (r.key or b"").decode(), None if r.value is None else r.value.decode())
        for r in records_of(log)
    ]
