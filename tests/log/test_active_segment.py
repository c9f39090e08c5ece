"""The ends of a log and of its active segment move alike in both versions, whatever is appended."""

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.buffers import put_int
from barnabas.base.errors import BrokerError, DiskFault, ErrorCode, LawBroken
from barnabas.config.topic_config import TopicConfig
from barnabas.log.segment.active_segment import MOST_TOGETHER
from barnabas.log.segment.index_end import IndexEnd
from barnabas.wire.produce.plain_batch import PlainBatch
from barnabas.wire.records.batch import read_header
from tests.support.twins import both, in_python

NAME = "barnabas.log.segment.active_segment"
CONFIG = TopicConfig()
pytestmark = pytest.mark.parametrize("twin", both(NAME))

STATE = (
    "base_offset", "end_offset", "size", "max_timestamp", "max_timestamp_offset",
    "is_full", "is_dirty", "_first_timestamp", "_since_entry",
)  # fmt: skip


@dataclass
class File:
    """Accepts all appends, unless a test makes it fail."""

    appended: list[bytes] = field(default_factory=list)
    fails: bool = False

    def append(self, data: memoryview) -> None:
        if self.fails:
            raise DiskFault("folder", OSError("no more"))
        self.appended.append(bytes(data))


def a_log(twin: ModuleType, interval: int = 100, base_offset: int = 7, epoch: int = 3) -> Any:
    """The parts that `Log` and `Segment` add to the ends, as far as an append can see them."""

    class Segment(twin.SegmentEnd):  # type: ignore[misc, name-defined] # - a class of either twin
        def __init__(self, base_offset: int) -> None:
            super().__init__(base_offset, interval, 5_000, 10)
            self._file = File()
            self.offset_index = self.time_index = IndexEnd(base_offset, 1_000, 0)
            self.entries: list[tuple[int, int]] = []

        @property
        def file(self) -> File:
            return self._file

        @property
        def first_timestamp(self) -> int:
            return 0

        def _add_index_entries(self, last_offset: int, position: int) -> None:
            self.entries.append((last_offset, position))
            self._since_entry = 0

    class Log(twin.LogEnd):  # type: ignore[misc, name-defined] # - a class of either twin
        def __init__(self) -> None:
            super().__init__("topic-0", CONFIG, Segment(base_offset), epoch, base_offset)
            self.events: list[Any] = []

        def roll(self, now_ms: int) -> bool:
            self.events.append(("rolled", self.log_end_offset))
            self._active = Segment(self.log_end_offset)
            return True

        def _settle_now(self) -> None:
            self.events.append("settled")
            self.is_unsettled = False

        def _begin_epoch(self, epoch: int, start_offset: int) -> None:
            self.events.append(("epoch", epoch, start_offset))
            self._epoch = epoch

    return Log()


def a_batch(memory: bytearray, count: int, max_timestamp: int = 0, at: int = 0) -> PlainBatch:
    """A batch of so many records, all of this memory from `at` on."""
    batch = PlainBatch()
    batch.view, batch.at, batch.size = memoryview(memory), at, len(memory) - at
    batch.length, batch.record_count = batch.size - 12, count
    batch.max_timestamp, batch.producer_id = max_timestamp, -1
    put_int(batch.view, at + 23, count - 1)
    return batch


def shown(log: Any) -> Any:
    active = log._active
    ends = log.log_start_offset, log.log_end_offset, log._epoch, log.events
    return ends, [getattr(active, name) for name in STATE], active.entries, active._file.appended


def test_a_batch_is_stamped_with_its_offset_and_epoch_and_nothing_else_changes(
    twin: ModuleType,
) -> None:
    log, batch = a_log(twin), bytearray(range(100))
    plain = a_batch(batch, 3, 1_000)
    before = bytes(batch)
    assert log.append_batches([plain], 4, 6_000) == 7
    assert log.log_end_offset == 10
    assert log.events == [("epoch", 4, 7)]
    header = read_header(batch)
    assert (header.base_offset, header.batch_length, header.leader_epoch) == (7, 88, 4)
    assert batch[16:] == before[16:]
    assert log._active._file.appended == [bytes(batch)]


def test_a_past_leader_is_fenced_and_leaves_log_and_batch_alone(twin: ModuleType) -> None:
    log, batch = a_log(twin), bytearray(100)
    before = shown(log)
    with pytest.raises(BrokerError) as refused:
        log.append_batches([a_batch(batch, 1)], 2, 0)
    assert refused.value.code is ErrorCode.fenced_leader_epoch
    assert shown(log) == before
    assert batch == bytearray(100)


def test_a_disk_that_fails_leaves_the_ends_and_closes_the_log(twin: ModuleType) -> None:
    log = a_log(twin)
    log._active._file.fails = True
    before = shown(log)
    for _ in range(2):
        with pytest.raises(DiskFault) as failed:
            log.append_batches([a_batch(bytearray(100), 1)], 3, 0)
        assert log.failure is failed.value
    assert shown(log) == before


def test_a_log_that_was_cut_is_settled_before_an_append(twin: ModuleType) -> None:
    log = a_log(twin)
    log.is_unsettled = True
    log.append_batches([a_batch(bytearray(100), 1)], 3, 0)
    assert log.events == ["settled"]


def test_a_batch_whose_offsets_have_gaps_is_not_appended(twin: ModuleType) -> None:
    log, batch = a_log(twin), a_batch(bytearray(100), 3)
    batch.record_count = 2
    with pytest.raises(LawBroken, match="LOG-1"):
        log.append_batches([batch], 3, 0)
    assert log.log_end_offset == 7


def test_batches_are_written_together_as_far_as_they_fit(twin: ModuleType) -> None:
    log = a_log(twin)
    log.append_batches([a_batch(bytearray(100), 1)], 3, 0)
    many = [a_batch(bytearray(100 + n), 2) for n in range(MOST_TOGETHER + 5)]
    assert log.append_batches(many, 3, 0) == 8
    assert log.log_end_offset == 8 + 2 * MOST_TOGETHER
    _, together = log._active._file.appended
    assert together == b"".join(bytes(each.view) for each in many[:MOST_TOGETHER])
    assert [offset_of(each) for each in many[:3]] == [8, 10, 12]
    assert offset_of(many[-1]) == 0, "it was not appended"


def offset_of(batch: PlainBatch) -> int:
    return read_header(batch.view).base_offset


TIMES = st.one_of(st.integers(-2, 2_000_000_000), st.integers(-(2**63), 2**63 - 1))
BATCH = st.tuples(st.integers(61, 400), st.integers(1, 2**31 - 1), TIMES)
APPEND = st.tuples(
    st.lists(BATCH, min_size=1, max_size=4), st.integers(3, 5), st.integers(0, 2**40)
)


@given(appends=st.lists(APPEND, max_size=12), interval=st.sampled_from([0, 100, 4096]))
def test_any_appends_move_both_alike(
    twin: ModuleType,
    appends: list[tuple[list[tuple[int, int, int]], int, int]],
    interval: int,
) -> None:
    log, model = a_log(twin, interval), a_log(in_python(NAME), interval)
    for batches, epoch, now_ms in appends:
        results: list[Any] = []
        for each in (log, model):
            plain = [a_batch(bytearray(size), count, at) for size, count, at in batches]
            try:
                results.append(each.append_batches(plain, epoch, now_ms))
            except BrokerError as error:
                results.append(error.code)
        assert results[0] == results[1]
        assert shown(log) == shown(model)
