"""The end of an index: both twins put the same entries to the same places."""

import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.twins import both, in_python

NAME = "barnabas.log.segment.index_end"
BASE = 1_000
ROOM = 400
pytestmark = pytest.mark.parametrize("twin", both(NAME))


def an_end(twin: ModuleType, entries: int = 0) -> Any:
    """The parts that `Index` adds to its end, as far as an entry can see them."""

    class Index(twin.IndexEnd):  # type: ignore[misc, name-defined] # - a class of either twin
        def __init__(self) -> None:
            super().__init__(BASE, 20, entries)
            self.memory = bytearray(ROOM)
            self.made_ready: list[int] = []

        def _make_ready(self, position: int) -> None:
            self.made_ready.append(position)
            self._view = memoryview(self.memory)
            self._ready = position + 50

        @property
        def last(self) -> tuple[int, int]:
            return 500, BASE

    return Index()


def test_entries_lie_one_behind_the_other_in_network_order(twin: ModuleType) -> None:
    offsets, times = an_end(twin), an_end(twin)
    assert not offsets.add_offset(BASE + 5, 4_200)
    assert not offsets.add_offset(BASE + 11, 9_000)
    assert bytes(offsets.memory[:16]).hex() == "00000005000010680000000b00002328"
    assert not times.add_time(77_000_000_000, BASE + 3)
    assert bytes(times.memory[:12]).hex() == "00000011ed8ec20000000003"
    assert (offsets.entries, times.entries) == (2, 1)


def test_a_time_that_is_not_later_adds_nothing_also_behind_entries_of_before(
    twin: ModuleType,
) -> None:
    times = an_end(twin, entries=3)
    for timestamp, entries in [(499, 3), (500, 3), (501, 4), (501, 4), (502, 5)]:
        times.add_time(timestamp, BASE + 9)
        assert times.entries == entries


def test_what_does_not_fit_into_an_entry_is_refused_and_changes_nothing(twin: ModuleType) -> None:
    index = an_end(twin)
    for offset, position in [(BASE + 2**31, 1), (BASE - 2**31 - 1, 1), (BASE, 2**31)]:
        with pytest.raises(struct.error):
            index.add_offset(offset, position)
    assert (index.entries, index.memory) == (0, bytearray(ROOM))


def test_memory_that_is_too_short_is_not_written_beyond(twin: ModuleType) -> None:
    index = an_end(twin)
    index._view, index._ready = memoryview(bytearray(7)), 100
    with pytest.raises(struct.error):
        index.add_offset(BASE, 1)
    assert index.entries == 0


@given(
    adds=st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(-2, 2**62)), max_size=30),
    times=st.booleans(),
)
def test_any_entries_are_the_same_of_both(
    twin: ModuleType, adds: list[tuple[int, int]], times: bool
) -> None:
    index, model = an_end(twin), an_end(in_python(NAME))
    for relative, timestamp in adds:
        told = [
            each.add_time(timestamp, BASE + relative)
            if times
            else each.add_offset(BASE + relative, relative)
            for each in (index, model)
        ]
        assert told[0] == told[1]
    for name in ("entries", "memory", "made_ready", "_ready", "_latest", "_latest_of"):
        assert getattr(index, name) == getattr(model, name)


@given(
    positions=st.lists(st.integers(0, 10_000), max_size=20).map(sorted),
    sought=st.integers(-1, 11_000),
)
def test_a_position_is_found_among_entries_that_rise(
    twin: ModuleType, positions: list[int], sought: int
) -> None:
    index = an_end(twin)
    for position in positions:
        index.add_offset(BASE, position)
    expected = max((each for each in positions if each <= sought), default=0)
    assert index.last_position_upto(sought) == expected


def test_nothing_is_looked_for_beyond_the_memory(twin: ModuleType) -> None:
    index = an_end(twin, entries=3)
    index._view = memoryview(bytearray(23))
    with pytest.raises(struct.error):
        index.last_position_upto(5)
