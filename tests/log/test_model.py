"""Any sequence of operations on a log, against a list of batches in memory."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.log.background_work import Flush
from barnabas.log.log import Log
from barnabas.wire.records.batch import BatchHeader, check_crc, headers, read_header
from barnabas.wire.records.records import Record, build_batch, read_records
from tests.log.batches import CONFIG, NOW, PARTITION, append, content, open_partition
from tests.log.compaction import clean
from tests.log.test_log_loader import check_indexes

SMALL = replace(
    CONFIG,
    cleanup_policy=("compact", "delete"),
    min_cleanable_dirty_ratio=0.0,
    segment_bytes=700,
    segment_index_bytes=60,
    index_interval_bytes=150,
)
PART = st.integers(0, 20).map(lambda part: part / 20)


class LogMachine(RuleBasedStateMachine):
    """A log, and the batches that it should hold.

    `flushed` is how far a crash may not reach, `cleaned` how far compaction has come. The folder's
    checkpoints are played by the fields.
    """

    @initialize(keys=st.integers(0, 60))
    def begin(self, keys: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="barnabas-log-"))
        self.batches: list[bytes] = []
        self.start = self.end = self.flushed = self.cleaned = self.epoch = 0
        self.now = NOW
        self.flushing: list[tuple[Flush, int]] = []
        self.log: Log = open_partition(self.folder, SMALL)
        if keys:  # else it begins empty
            self.fill(keys)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def model(self) -> list[tuple[BatchHeader, bytes]]:
        return [(read_header(batch), batch) for batch in self.batches]

    @rule(
        times=st.integers(1, 20),
        count=st.integers(1, 5),
        size=st.integers(0, 200),
        later=st.integers(-50, 200),
        keys=st.integers(1, 60),
    )
    def append(self, times: int, count: int, size: int, later: int, keys: int) -> None:
        for _ in range(times):
            self.now += later
            records = [
                Record(n, self.now + n, b"%d" % ((self.end + n) % keys), b"x" * size)
                for n in range(count)
            ]
            batch = memoryview(build_batch(records))
            appended = append(self.log, batch, epoch=self.epoch)
            assert appended[:2] == (self.end, self.end + count)
            self.batches.append(bytes(batch))
            self.end += count

    @precondition(lambda self: not self.batches)
    @rule(keys=st.integers(1, 60))
    def fill(self, keys: int) -> None:
        """Some segments, lest most of what is done be done to an empty log."""
        self.append(times=20, count=3, size=40, later=10, keys=keys)

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule(
        where=PART,
        max_bytes=st.integers(0, 2000),
        upto=PART,
        minimum_one=st.booleans(),
    )
    def read(self, where: float, max_bytes: int, upto: float, minimum_one: bool) -> None:
        offset = self.start + int(where * (self.end - self.start))
        bound = self._boundary(self.start + upto * (self.end - self.start))
        first_time = self.log.read_warm(Offset(offset), max_bytes, bound)
        extent = self.log.locate(Offset(offset), max_bytes, bound, minimum_one=minimum_one)
        seen = content(extent)
        again = self.log.read_warm(Offset(offset), max_bytes, bound)
        if minimum_one and again is not None:
            assert seen == again == first_time
        allowed = [
            (header, batch)
            for header, batch in self.model()
            if header.next_offset > offset and header.next_offset <= bound
        ]
        assert b"".join(batch for _, batch in allowed).startswith(seen)
        got = list(headers(seen))
        assert sum(header.size for _, header in got) == len(seen)
        first = allowed[0][0].size if allowed else 0
        if minimum_one and first:
            assert got
        else:
            assert len(seen) <= max_bytes
        if first and first <= max_bytes:
            assert got

    def _boundary(self, near: float) -> Offset:
        """The end of a batch, as a high watermark is."""
        ends = [header.next_offset for header, _ in self.model() if header.next_offset <= near]
        return Offset(max([self.start, *ends]))

    @rule(offset=st.integers(-2, 2))
    def read_outside(self, offset: int) -> None:
        for outside in (self.start - 1 - abs(offset), self.end + 1 + abs(offset)):
            with pytest.raises(BrokerError) as error:
                self.log.locate(Offset(outside), 100, Offset(self.end))
            assert error.value.code is ErrorCode.offset_out_of_range

    @rule(time=st.integers(-60, 400))
    def find_time(self, time: int) -> None:
        sought = NOW + time * 5
        found = self.log.offset_for_timestamp(sought)
        every = (
            (record.timestamp, record.offset, header.leader_epoch)
            for header, batch in self.model()
            for record in read_records(batch)
        )
        expected = (each for each in every if each[0] >= sought and each[1] >= self.start)
        assert found == next(expected, None)

    @precondition(lambda self: self.batches)
    @rule(where=PART)
    def truncate(self, where: float) -> None:
        offset = self.start + int(where * (self.end - self.start))
        removal = self.log.truncate_to(Offset(offset), NOW)
        if offset < self.end:
            kept = [batch for header, batch in self.model() if header.next_offset <= offset]
            # Where compaction has left a gap, the log ends within it.
            cut = min(
                [offset, *(read_header(gone).base_offset for gone in self.batches[len(kept) :])]
            )
            self.batches, self.end = kept, cut
            self.start = min(self.start, cut)
            self.flushed = min(self.flushed, cut)
            self.cleaned = min(self.cleaned, cut)
            self.flushing.clear()
        if removal:
            removal.run()

    @precondition(lambda self: self.batches or not self.end)
    @rule(ahead=st.integers(0, 50))
    def start_anew(self, ahead: int) -> None:
        offset = self.end + ahead
        self.log.truncate_fully_and_start_at(Offset(offset), NOW).run()
        self.batches = []
        self.start = self.end = offset
        self.flushed = min(self.flushed, offset)
        self.cleaned = min(self.cleaned, offset)
        self.flushing.clear()

    @precondition(lambda self: self.batches)
    @rule(where=PART)
    def delete_records(self, where: float) -> None:
        self.start += int(where * (self.end - self.start))
        self.log.delete_records_before(Offset(self.start))

    @precondition(lambda self: self.batches)
    @rule(retained=st.integers(0, 3000), upto=PART)
    def retain(self, retained: int, upto: float) -> None:
        self.log.config = replace(SMALL, retention_bytes=retained)
        bound = self._boundary(self.start + upto * (self.end - self.start))
        deletable = self.log.deletable_segments(NOW, bound)
        gone = sum(segment.size for segment in deletable)
        if removal := self.log.delete_segments(deletable, NOW):
            removal.run()
        while gone:
            gone -= len(self.batches.pop(0))
            assert gone >= 0
        first = self.log.segments[0].base_offset
        assert first <= max(bound, self.start)
        self.start = max(self.start, first)
        self.log.config = SMALL

    @precondition(lambda self: self.batches)
    @rule(roll=st.booleans(), flush=st.booleans())
    def compact(self, roll: bool, flush: bool) -> None:
        if roll:
            self.roll()
        if flush:
            self.flush()
        *resting, active = self.log.segments
        unflushed = (each.base_offset for each in resting if each.end_offset > self.flushed)
        end = min([active.base_offset, *unflushed])
        start = self.cleaned if self.start <= self.cleaned <= self.end else self.start
        every = [record for batch in self.batches for record in read_records(batch)]
        latest = {record.key: record.offset for record in every if start <= record.offset < end}
        cleaning = clean(self.log, flush=False)
        if cleaning is None:
            assert not latest
            return
        assert cleaning.end_offset == end
        self.cleaned = end
        self._take_cleaned([r for r in every if r.offset >= latest.get(r.key, -1)])

    def _take_cleaned(self, left: list[Record]) -> None:
        """Of each batch what should be left of its records, offsets unchanged, is stored."""
        stored = self._stored()
        cleaned = [stored[at : at + header.size] for at, header in headers(stored)]
        assert [record for batch in cleaned for record in read_records(batch)] == left
        before = {header.base_offset: (header, batch) for header, batch in self.model()}
        for batch in cleaned:
            header = read_header(batch)
            old, old_batch = before[header.base_offset]
            assert header.record_count
            assert check_crc(batch)
            assert batch == old_batch or header.record_count < old.record_count
            assert (header.next_offset, header.leader_epoch) == (old.next_offset, old.leader_epoch)
        self.batches = cleaned

    @rule()
    def flush(self) -> None:
        self.log.flush(NOW)
        self.flushed = self.end
        self.flushing.clear()

    @rule(rolled_only=st.booleans())
    def begin_flush(self, rolled_only: bool) -> None:
        end = self.log.segments[-1].base_offset if rolled_only else self.end
        self.flushing.append((self.log.start_flush(rolled_only=rolled_only), end))

    @precondition(lambda self: self.flushing)
    @rule(data=st.data())
    def end_flush(self, data: st.DataObject) -> None:
        flush, end = self.flushing.pop(data.draw(st.integers(0, len(self.flushing) - 1)))
        flush.run()
        self.log.on_flushed(flush, NOW)
        self.flushed = max(self.flushed, end)

    @rule()
    def restart(self) -> None:
        self.log.close(NOW)
        self._open(clean=True)
        self.flushed = self.end

    @rule(lost=PART, torn=st.booleans())
    def crash(self, lost: float, torn: bool) -> None:
        """Bytes after the flushed ones may be lost, from the end of the log."""
        active = self.log.segments[-1]
        sizes = [
            (header, len(batch))
            for header, batch in self.model()
            if header.base_offset >= max(self.flushed, active.base_offset, self.start)
        ]
        cut = int(lost * sum(size for _, size in sizes)) if torn else 0
        path = self.folder / str(PARTITION) / f"{active.base_offset:020}.log"
        data = path.read_bytes()
        path.write_bytes(data[: len(data) - cut])
        while cut > 0:
            cut -= len(self.batches[-1])
            self.batches.pop()
        self._open(clean=False)
        self.flushed = min(self.flushed, self.end)

    def _open(self, *, clean: bool) -> None:
        """The stored batches give the end: of a log that was cut within a gap, the gap's start."""
        ends = [header.next_offset for header, _ in self.model()[-1:]]
        self.end = max([self.log.segments[-1].base_offset, *ends])
        if self.end < self.start:  # all that is left was deleted
            self.batches, self.end = [], self.start
        self.log = open_partition(
            self.folder,
            SMALL,
            clean=clean,
            recovery_point=self.flushed,
            log_start_offset=self.start,
        )
        self.log.first_dirty_offset = self.cleaned
        self.flushing.clear()

    @invariant()
    def bounds_and_epochs_agree(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.recovery_point == self.flushed
        assert log.size_bytes == sum(map(len, self.batches))
        for header, _ in self.model()[-1:]:
            epoch = header.leader_epoch
            # Batches of later epochs may be compacted away, and what replaced them be truncated.
            if self.start < header.next_offset == self.end:
                assert log.epochs.latest == epoch
                assert log.end_offset_for_epoch(LeaderEpoch(epoch)) == (epoch, self.end)
            elif self.start < header.next_offset:
                assert log.epochs.latest >= epoch

    @invariant()
    def the_files_hold_the_batches(self) -> None:
        assert self._stored() == b"".join(self.batches)
        check_indexes(self.log)

    def _stored(self) -> bytes:
        return b"".join(
            (self.folder / str(PARTITION) / f"{segment.base_offset:020}.log").read_bytes()
            for segment in self.log.segments
        )


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
