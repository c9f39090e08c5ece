"""Any history of a compacted log, cleaned at any times, against a list of its records."""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.disk.disk import RealDisk
from barnabas.log.log import Appended, Log
from barnabas.log.segment.segment import TRANSACTION_INDEX
from barnabas.log.segment.transaction_index import decode_aborted
from barnabas.wire.records.batch import BatchHeader, headers, read_header
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
    read_marker,
    read_records,
)
from tests.log.batches import NOW, content, open_partition, read_batches
from tests.log.compaction import COMPACT, clean
from tests.log.test_log_loader import check_indexes

SMALL = replace(COMPACT, segment_index_bytes=60, index_interval_bytes=120)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f", b"a long key that takes some room"])
VALUES = st.one_of(st.none(), st.binary(max_size=60))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5)
IDEMPOTENT = (1, 2)
TRANSACTIONAL = (3, 4)


@dataclass
class ModelBatch:
    """A batch that was appended, and what should be left of it."""

    base_offset: int
    records: list[Record]
    producer_id: int = -1
    aborted: bool | None = None  # None: not in a transaction, or undecided
    horizon: int | None = None


class UnsyncedDisk(RealDisk):
    """Skips fsyncs: no test here cuts the power."""

    def sync(self, path: str = "", /) -> None:
        pass


class CleaningMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="barnabas-compaction-"))
        self.disk = UnsyncedDisk(str(self.folder))
        self.log: Log = open_partition(self.disk, SMALL)
        self.batches: list[ModelBatch] = []
        self.history: list[ModelBatch] = []
        self.now = NOW
        self.next_sequence = dict.fromkeys((*IDEMPOTENT, *TRANSACTIONAL), 0)
        self.undecided: dict[int, list[ModelBatch]] = {}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def _append(self, batch: bytearray) -> Appended:
        return self.log.append(memoryview(batch), read_header(batch), LeaderEpoch(0), self.now)

    def _append_pairs(
        self, pairs: list[tuple[bytes, bytes | None]], codec: Codec, producer_id: int = -1
    ) -> ModelBatch:
        base = self.log.log_end_offset
        records = [Record(n, self.now + n, *pair) for n, pair in enumerate(pairs)]
        sequence = self.next_sequence.get(producer_id, -1)
        self._append(
            build_batch(
                records,
                codec=codec,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=sequence,
                transactional=producer_id in TRANSACTIONAL,
            )
        )
        if producer_id >= 0:
            self.next_sequence[producer_id] += len(pairs)
        stored = [record._replace(offset=base + record.offset) for record in records]
        self.batches.append(ModelBatch(base, stored, producer_id))
        self.history.append(ModelBatch(base, list(stored), producer_id))
        return self.batches[-1]

    @rule(pairs=PAIRS, codec=st.sampled_from(Codec))
    def append(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        self._append_pairs(pairs, codec)

    @rule(pairs=PAIRS, producer_id=st.sampled_from(IDEMPOTENT))
    def append_idempotently(
        self, pairs: list[tuple[bytes, bytes | None]], producer_id: int
    ) -> None:
        self._append_pairs(pairs, Codec.NONE, producer_id)

    @rule(pairs=PAIRS, producer_id=st.sampled_from(TRANSACTIONAL))
    def append_in_a_transaction(
        self, pairs: list[tuple[bytes, bytes | None]], producer_id: int
    ) -> None:
        batch = self._append_pairs(pairs, Codec.NONE, producer_id)
        self.undecided.setdefault(producer_id, []).extend((batch, self.history[-1]))

    @precondition(lambda self: self.undecided)
    @rule(control_type=st.sampled_from(ControlType))
    def end_a_transaction(self, control_type: ControlType) -> None:
        producer_id = next(iter(self.undecided))
        batches = self.undecided.pop(producer_id)
        marker = build_marker(EndTransactionMarker(control_type, 0), self.now, producer_id, 0)
        self._append(marker)
        for batch in batches:
            batch.aborted = control_type is ControlType.ABORT

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now)

    @rule(later=st.integers(1, 1500))
    def wait(self, later: int) -> None:
        self.now += later

    @rule(slots=st.integers(1, 12), buffer_bytes=st.sampled_from([100, 300, 5000]))
    def clean(self, slots: int, buffer_bytes: int) -> None:
        first_dirty = self.log.first_dirty_offset or 0
        cleaning = clean(self.log, self.now, memory=slots * 24, buffer_bytes=buffer_bytes)
        if cleaning is None:
            return
        end = cleaning.end_offset
        assert end > first_dirty
        reached = max(s.end_offset for s in cleaning.plan.segments if s.base_offset < end)
        latest = {
            record.key: record.offset
            for batch in self.batches
            if not batch.aborted
            for record in batch.records
            if first_dirty <= record.offset < end
        }
        for batch in self.batches:
            if batch.base_offset < reached:
                self._clean_batch(batch, latest, end)

    def _clean_batch(self, batch: ModelBatch, latest: dict[bytes | None, int], end: int) -> None:
        if batch.aborted:
            batch.records.clear()
            return
        if batch.base_offset >= end:
            return
        gone = batch.horizon is not None and batch.horizon <= self.now
        batch.records[:] = [
            record
            for record in batch.records
            if record.offset >= end
            or (record.offset >= latest.get(record.key, -1) and not (gone and record.value is None))
        ]
        if batch.horizon is None and any(record.value is None for record in batch.records):
            batch.horizon = self.now + SMALL.delete_retention_ms

    @rule(clean=st.booleans(), without_snapshots=st.booleans())
    def restart(self, clean: bool, without_snapshots: bool) -> None:
        self.log.close(self.now) if clean else self.log.flush(self.now)
        if without_snapshots:
            for path in self.folder.glob("*/*.snapshot"):
                path.unlink()
        first_dirty = self.log.first_dirty_offset
        self.log = open_partition(
            self.disk, SMALL, clean=clean, recovery_point=self.log.log_end_offset
        )
        self.log.first_dirty_offset = first_dirty

    @property
    def stored(self) -> list[tuple[BatchHeader, bytes]]:
        return list(read_batches(self.log))

    @property
    def last_stable_offset(self) -> int:
        begun = [batches[0].base_offset for batches in self.undecided.values()]
        return min(begun, default=self.log.log_end_offset)

    @invariant()
    def what_is_stored_is_what_the_model_says(self) -> None:
        found = [
            record
            for header, batch in self.stored
            if not header.is_control
            for record in read_records(batch)
        ]
        assert found == [record for batch in self.batches for record in batch.records]

    @invariant()
    def a_reader_ends_up_with_the_same_values(self) -> None:
        expected: dict[bytes | None, bytes | None] = {}
        for batch in self.history:
            is_committed = batch.aborted is False or batch.producer_id not in TRANSACTIONAL
            if is_committed and batch.base_offset < self.last_stable_offset:
                expected |= {record.key: record.value for record in batch.records}
        values = {key: value for key, value in self._read_committed().items() if value is not None}
        assert values == {key: value for key, value in expected.items() if value is not None}

    def _read_committed(self) -> dict[bytes | None, bytes | None]:
        """The values for a READ_COMMITTED consumer, by batches and aborted transactions."""
        paths = [segment.path(TRANSACTION_INDEX) for segment in self.log.segments]
        aborted = [entry for path in paths for entry in decode_aborted(self.disk.load(path) or b"")]
        stable = self.last_stable_offset
        values: dict[bytes | None, bytes | None] = {}
        for header, batch in self.stored:
            is_aborted = header.is_transactional and any(
                entry.producer_id == header.producer_id
                and entry.first_offset <= header.base_offset < entry.last_offset
                for entry in aborted
            )
            if not header.is_control and not is_aborted and header.base_offset < stable:
                values |= {record.key: record.value for record in read_records(batch)}
        return values

    @invariant()
    def every_transaction_with_records_still_has_its_marker(self) -> None:
        waiting: set[int] = set()
        for header, batch in self.stored:
            if header.is_control and read_marker(batch):
                waiting.discard(header.producer_id)
            elif header.is_transactional and not header.is_control and header.record_count:
                waiting.add(header.producer_id)
        assert waiting <= set(self.undecided)

    @invariant()
    def every_offset_and_time_is_found(self) -> None:
        check_indexes(self.log)
        end, stored = self.log.log_end_offset, self.stored
        for offset in range(0, end, 3):
            expected = next((h for h, _ in stored if h.next_offset > offset), None)
            seen = content(self.log.locate(Offset(offset), 1, end, minimum_one=True))
            assert [h for _, h in headers(seen)] == ([expected] if expected else [])
        every = [record for _, batch in stored for record in read_records(batch)]
        for time in range(NOW, self.now + 3, max(1, (self.now - NOW) // 5)):
            found = self.log.offset_for_timestamp(time)
            sought = next((r.offset for r in every if r.timestamp >= time), None)
            assert (found and found.offset) == sought

    @invariant()
    def producers_go_on_where_they_were(self) -> None:
        for producer_id, next_sequence in self.next_sequence.items():
            if next_sequence:
                state = self.log.producers.producers[producer_id]
                assert (state.next_sequence, state.producer_epoch) == (next_sequence, 0)

    @invariant()
    def segments_stay_within_their_limits(self) -> None:
        for segment in self.log.segments:
            sizes = [header.size for _, header in segment.headers()]
            assert segment.size <= max(SMALL.segment_bytes, max(sizes, default=0))
            assert segment.offset_index.entries <= segment.offset_index.max_entries
        names = [path.name for path in self.folder.glob("orders-0/*")]
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]


TestCleaningMachine = CleaningMachine.TestCase
TestCleaningMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
