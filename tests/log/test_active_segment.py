"""The ends of a log and of its active segment: both twins move alike, whatever is appended."""

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.config.topic_config import TopicConfig
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
    """Takes what is appended, unless it is told to fail."""

    appended: list[bytes] = field(default_factory=list)
    fails: bool = False

    def append(self, data: memoryview) -> None:
        if self.fails:
            raise DiskFault("folder", OSError("no more"))
        self.appended.append(bytes(data))


def a_log(twin: ModuleType, interval: int = 100, base_offset: int = 7, epoch: int = 3) -> Any:
    """What `Log` and `Segment` add to the ends, as far as an append can see it."""

    class Segment(twin.SegmentEnd):  # type: ignore[misc, name-defined] # - a class of either twin
        def __init__(self, base_offset: int) -> None:
            super().__init__(base_offset, interval, 5_000, 10)
            self._file = File()
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


def shown(log: Any) -> Any:
    active = log._active
    ends = log.log_start_offset, log.log_end_offset, log._epoch, log.events
    return ends, [getattr(active, name) for name in STATE], active.entries, active._file.appended


def test_a_batch_is_stamped_with_its_offset_and_epoch_and_nothing_else_changes(
    twin: ModuleType,
) -> None:
    log, batch = a_log(twin), bytearray(range(100))
    assert log.append_unsequenced(memoryview(batch), 88, 3, 1_000, 4, 6_000) == 7
    assert log.log_end_offset == 10
    assert log.events == [("epoch", 4, 7)]
    header = read_header(batch)
    assert (header.base_offset, header.batch_length, header.leader_epoch) == (7, 88, 4)
    assert batch[16:] == bytearray(range(16, 100))
    assert log._active._file.appended == [bytes(batch)]


def test_a_past_leader_is_fenced_and_leaves_log_and_batch_alone(twin: ModuleType) -> None:
    log, batch = a_log(twin), bytearray(100)
    before = shown(log)
    with pytest.raises(BrokerError) as refused:
        log.append_unsequenced(memoryview(batch), 88, 1, 0, 2, 0)
    assert refused.value.code is ErrorCode.fenced_leader_epoch
    assert shown(log) == before
    assert batch == bytearray(100)


def test_a_disk_that_fails_leaves_the_ends_and_closes_the_log(twin: ModuleType) -> None:
    log = a_log(twin)
    log._active._file.fails = True
    before = shown(log)
    for _ in range(2):
        with pytest.raises(DiskFault) as failed:
            log.append_unsequenced(memoryview(bytearray(100)), 88, 1, 0, 3, 0)
        assert log.failure is failed.value
    assert shown(log) == before


def test_a_log_that_was_cut_is_settled_before_an_append(twin: ModuleType) -> None:
    log = a_log(twin)
    log.is_unsettled = True
    log.append_unsequenced(memoryview(bytearray(100)), 88, 1, 0, 3, 0)
    assert log.events == ["settled"]


TIMES = st.one_of(st.integers(-2, 2_000_000_000), st.integers(-(2**63), 2**63 - 1))
APPEND = st.tuples(
    st.integers(61, 400), st.integers(1, 2**31 - 1), TIMES, st.integers(3, 5), st.integers(0, 2**40)
)


@given(appends=st.lists(APPEND, max_size=12), interval=st.sampled_from([0, 100, 4096]))
def test_any_appends_move_both_twins_alike(
    twin: ModuleType, appends: list[tuple[int, int, int, int, int]], interval: int
) -> None:
    log, model = a_log(twin, interval), a_log(in_python(NAME), interval)
    for size, count, timestamp, epoch, now_ms in appends:
        results: list[Any] = []
        for each in (log, model):
            batch = memoryview(bytearray(size))
            try:
                results.append(
                    each.append_unsequenced(batch, size - 12, count, timestamp, epoch, now_ms)
                )
            except BrokerError as error:
                results.append(error.code)
        assert results[0] == results[1]
        assert shown(log) == shown(model)
