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
from barnabas.log.log import Log
from barnabas.log.work import Flush
from barnabas.wire.batch import BatchHeader, headers, read_header
from tests.log.batches import CONFIG, NOW, PARTITION, append, batch_of, content, open_partition

SMALL = replace(CONFIG, segment_bytes=700, segment_index_bytes=60, index_interval_bytes=150)


class LogMachine(RuleBasedStateMachine):
    """A log, and the batches that it should hold.

    `flushed` is how far a crash may not reach. The folder's checkpoints are played by the fields.
    """

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="barnabas-log-"))
        self.batches: list[bytes] = []
        self.start = self.end = self.flushed = self.epoch = 0
        self.now = NOW
        self.flushing: list[tuple[Flush, int]] = []
        self.log: Log = open_partition(self.folder, SMALL)

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
    )
    def append(self, times: int, count: int, size: int, later: int) -> None:
        for _ in range(times):
            self.now += later
            batch = batch_of(count, value=b"x" * size, timestamp=self.now)
            appended = append(self.log, batch, epoch=self.epoch)
            assert appended == (self.end, self.end + count)
            self.batches.append(bytes(batch))
            self.end += count

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule(
        where=st.floats(0, 1),
        max_bytes=st.integers(0, 2000),
        upto=st.floats(0, 1),
        minimum_one=st.booleans(),
    )
    def read(self, where: float, max_bytes: int, upto: float, minimum_one: bool) -> None:
        offset = self.start + int(where * (self.end - self.start))
        bound = self._boundary(self.start + upto * (self.end - self.start))
        extent = self.log.locate(Offset(offset), max_bytes, bound, minimum_one=minimum_one)
        seen = content(extent)
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
            (header.base_timestamp + n, header.base_offset + n, header.leader_epoch)
            for header, _ in self.model()
            for n in range(header.record_count)
        )
        expected = (each for each in every if each[0] >= sought and each[1] >= self.start)
        assert found == next(expected, None)

    @rule(where=st.floats(0, 1))
    def truncate(self, where: float) -> None:
        offset = self.start + int(where * (self.end - self.start))
        removal = self.log.truncate_to(Offset(offset), NOW)
        kept = [batch for header, batch in self.model() if header.next_offset <= offset]
        if len(kept) != len(self.batches):
            cut = read_header(self.batches[len(kept)]).base_offset
            self.batches, self.end = kept, cut
            self.start = min(self.start, cut)
            self.flushed = min(self.flushed, cut)
            self.flushing.clear()
        if removal:
            removal.run()

    @rule(ahead=st.integers(0, 50))
    def start_anew(self, ahead: int) -> None:
        offset = self.end + ahead
        self.log.truncate_fully_and_start_at(Offset(offset), NOW).run()
        self.batches = []
        self.start = self.end = offset
        self.flushed = min(self.flushed, offset)
        self.flushing.clear()

    @rule(where=st.floats(0, 1))
    def delete_records(self, where: float) -> None:
        self.start += int(where * (self.end - self.start))
        self.log.delete_records_before(Offset(self.start))

    @rule(retained=st.integers(0, 3000), upto=st.floats(0, 1))
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
        self.log = open_partition(self.folder, SMALL, log_start_offset=self.start)
        self.flushed = self.end
        self.flushing.clear()

    @rule(lost=st.floats(0, 1), torn=st.booleans())
    def crash(self, lost: float, torn: bool) -> None:
        """Bytes after the flushed ones may be lost, from the end of the log."""
        point = self.log.recovery_point
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
            self.end = read_header(self.batches.pop()).base_offset
        self.log = open_partition(
            self.folder, SMALL, clean=False, recovery_point=point, log_start_offset=self.start
        )
        self.flushing.clear()

    @invariant()
    def bounds_and_epochs_agree(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.recovery_point == self.flushed
        assert log.size_bytes == sum(map(len, self.batches))
        epochs = [
            header.leader_epoch for header, _ in self.model() if header.next_offset > self.start
        ]
        expected = max(epochs, default=-1)
        if expected >= 0:
            assert log.epochs.latest == expected
            assert log.end_offset_for_epoch(LeaderEpoch(expected)) == (expected, self.end)

    @invariant()
    def the_files_hold_the_batches(self) -> None:
        stored = b"".join(
            (self.folder / str(PARTITION) / f"{segment.base_offset:020}.log").read_bytes()
            for segment in self.log.segments
        )
        assert stored == b"".join(self.batches)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
