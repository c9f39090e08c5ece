"""A crashed log must still hold what was promised: checks that it does."""

import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from barnabas.base.ids import Offset
from barnabas.log.log import Log
from barnabas.log.producers.producer_state import ProducerStates
from barnabas.log.segment.segment import Segment
from barnabas.wire.records.batch import BatchHeader, check_crc, headers
from tests.log.batches import content, read_all


class Stored(NamedTuple):
    """A batch as it lies in a file."""

    header: BatchHeader
    position: int
    data: bytes


class Promised(NamedTuple):
    """A batch that was acknowledged: where it ends, and the CRC of all its bytes."""

    end: int
    crc: int


@dataclass
class Promises:
    """The promises to the writers of a log, from their journals."""

    batches: dict[int, Promised] = field(default_factory=dict)  # by base offset
    end: int = 0
    start: int = 0  # the log begins here, or before if the news did not reach the disk
    flushed: int = 0
    kept: int = 0  # what lies beyond may be gone: a truncation was under way

    def read(self, journal: Path) -> None:
        """Take in what one writer noted down; a line that it could not finish does not count."""
        *lines, _ = journal.read_text().split("\n") if journal.exists() else [""]
        truncating = None
        for kind, *numbers in (line.split() for line in lines):
            number, *more = map(int, numbers)
            if kind == "opened":
                assert more == [self.end], "the log ends elsewhere than before"
            elif kind == "appended":
                assert number == self.end, "offsets given are not dense"
                self.batches[number] = Promised(*more)
                self.end = more[0]
            elif kind == "flushed":
                self.flushed = number
            elif kind == "starting":
                self.start = max(self.start, number)
            elif kind == "truncating":
                truncating = number
            elif kind == "truncated":
                truncating = None
                self._cut(number)
        self.kept = self.end
        if truncating is not None:
            below = (batch.end for batch in self.batches.values() if batch.end <= truncating)
            self.kept = max(below, default=0)
            self.flushed = min(self.flushed, self.kept)

    def _cut(self, end: int) -> None:
        self.batches = {base: batch for base, batch in self.batches.items() if base < end}
        self.end, self.flushed = end, min(self.flushed, end)
        self.start = min(self.start, end)

    def become(self, stored: list[Stored], log: Log) -> None:
        """The batches of now must be there after the next crash."""
        self.batches = {
            each.header.base_offset: Promised(each.header.next_offset, crc32c(each.data))
            for each in stored
        }
        self.end = log.log_end_offset
        self.start = min(self.start, self.end)
        self.flushed = min(self.flushed, self.end)


def stored_batches(segment: Segment, folder: Path) -> list[Stored]:
    data = (folder / segment.path(".log")).read_bytes()
    found = [
        Stored(header, position, data[position : position + header.size])
        for position, header in headers(data)
    ]
    assert sum(len(each.data) for each in found) == len(data), "something lies behind the last"
    return found


def check_log(log: Log, folder: Path, source: random.Random) -> list[Stored]:
    """That a log which was just opened agrees with itself; returns all that its files hold."""
    by_segment = [(segment, stored_batches(segment, folder)) for segment in log.segments]
    everything = [each for _, stored in by_segment for each in stored]
    check_order(log, everything)
    for segment, stored in by_segment:
        check_offset_index(segment, stored)
        check_time_index(segment, stored)
    served = [each for each in everything if each.header.next_offset > log.log_start_offset]
    assert read_all(log) == [each.data for each in served]
    check_lookups(log, served, source)
    check_producers(log, everything)
    return everything


def check_order(log: Log, everything: list[Stored]) -> None:
    next_offset: int = log.segments[0].base_offset
    epoch = 0
    for header, _, data in everything:
        assert check_crc(data)
        assert header.base_offset == next_offset, "offsets are not dense"
        assert header.leader_epoch >= epoch
        next_offset, epoch = header.next_offset, header.leader_epoch
    assert log.log_end_offset == next_offset
    assert log.segments[0].base_offset <= log.log_start_offset <= log.log_end_offset


def check_offset_index(segment: Segment, stored: list[Stored]) -> None:
    last_offset_at = {each.position: each.header.last_offset for each in stored}
    index = segment.offset_index
    entries = [index.entry(number) for number in range(index.entries)]
    assert entries == sorted(set(entries))
    for relative, position in entries:
        assert last_offset_at[position] == segment.base_offset + relative


def check_time_index(segment: Segment, stored: list[Stored]) -> None:
    index = segment.time_index
    entries = [index.entry(number) for number in range(index.entries)]
    assert entries == sorted(entries)
    for timestamp, relative in entries:
        upto = [e.header for e in stored if e.header.last_offset <= segment.base_offset + relative]
        assert max(header.max_timestamp for header in upto) == timestamp
        assert upto[-1].last_offset == segment.base_offset + relative


def check_lookups(log: Log, served: list[Stored], source: random.Random) -> None:
    if not served:
        return
    bases = [each.header.base_offset for each in served]
    times = list(record_times(log, served))
    for _ in range(20):
        offset = source.randrange(log.log_start_offset, log.log_end_offset)
        extent = log.locate(Offset(offset), 1, log.log_end_offset, minimum_one=True)
        assert content(extent) == served[bisect_right(bases, offset) - 1].data
    for _ in range(5):
        sought = source.choice(times)[0] + source.randint(-1, 1)
        expected = next((each for each in times if each[0] >= sought), None)
        assert log.offset_for_timestamp(sought) == expected


def record_times(log: Log, served: list[Stored]) -> Iterator[tuple[int, int, int]]:
    """Time, offset and leader epoch of every record: they are a millisecond apart."""
    for header, _, _ in served:
        for n in range(header.record_count):
            if header.base_offset + n >= log.log_start_offset:
                yield header.base_timestamp + n, header.base_offset + n, header.leader_epoch


def check_producers(log: Log, everything: list[Stored]) -> None:
    """That producers are known as if all batches had been replayed.

    Snapshots know more of a producer whose older batches are deleted, and less of old batches.
    """
    rebuilt = ProducerStates(86_400_000)
    for header, _, _ in everything:
        if header.producer_id >= 0:
            rebuilt.apply(header, header.base_offset, header.max_timestamp)
    known = log.producers.producers
    for producer_id, state in rebuilt.producers.items():
        found = known[producer_id]
        assert found.producer_epoch == state.producer_epoch
        assert found.next_sequence == state.next_sequence
        assert found.last_timestamp == state.last_timestamp
        both = min(len(found.batches), len(state.batches))
        assert list(found.batches)[-both:] == list(state.batches)[-both:]
    for producer_id in known.keys() - rebuilt.producers.keys():
        assert known[producer_id].batches[-1].last_offset < log.segments[0].base_offset


def check_epochs(log: Log, everything: list[Stored], promises: Promises) -> None:
    """That each batch's epoch is known; below the start that was intended they may be forgotten."""
    for header, _, _ in everything:
        if header.base_offset >= promises.start:
            assert log.epochs.epoch_for_offset(header.base_offset) == header.leader_epoch
    if log.log_start_offset < log.log_end_offset:
        assert log.epochs.latest == everything[-1].header.leader_epoch
    assert list(log.epochs.entries) == sorted(log.epochs.entries)


def check_promises(everything: list[Stored], promises: Promises, least_end: int) -> None:
    """That all is there from the intended start up to `least_end`, and nothing made up.

    At most one batch may have been written that nobody was told of.
    """
    found = {
        each.header.base_offset: Promised(each.header.next_offset, crc32c(each.data))
        for each in everything
    }
    for base, batch in promises.batches.items():
        if promises.start < batch.end <= min(least_end, promises.kept):
            assert found.get(base) == batch, f"the batch at {base} is lost"
    unknown = [base for base, batch in found.items() if promises.batches.get(base) != batch]
    assert unknown in ([], [promises.end])
