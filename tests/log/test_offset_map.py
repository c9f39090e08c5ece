"""The map of compaction: right up to its last slot, in the memory it was given."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.log.cleaner.offset_map import ABSENT, OffsetMap

SLOT = 24


@given(
    puts=st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**63 - 2)), max_size=60),
    slots=st.integers(0, 40),
    load_factor=st.sampled_from([0.01, 0.5, 0.9, 1.0, 2.0]),
)
def test_it_agrees_with_a_dict_of_limited_size(
    puts: list[tuple[bytes, int]], slots: int, load_factor: float
) -> None:
    offset_map = OffsetMap(slots * SLOT, load_factor)
    model: dict[bytes, int] = {}
    for key, offset in puts:
        has_room = key in model or len(model) < offset_map.capacity
        assert offset_map.put(key, offset) is has_room
        if has_room:
            model[key] = offset
    assert len(offset_map) == len(model)
    for key, _ in puts:
        assert offset_map.get(key) == model.get(key, ABSENT)


@pytest.mark.parametrize("memory", [0, 1, 23, 24, 48, 72, 240, 2400])
def test_there_is_always_room_for_one_key_and_never_for_more_than_the_memory_holds(
    memory: int,
) -> None:
    offset_map = OffsetMap(memory, 1.0)
    taken = [n for n in range(200) if offset_map.put(str(n).encode(), n)]
    assert taken == list(range(offset_map.capacity))
    assert 1 <= offset_map.capacity <= max(1, memory // SLOT)
    assert offset_map.utilization == 1.0
    assert offset_map.get(b"absent") == ABSENT
    assert offset_map.put(b"0", 1000)
    assert offset_map.get(b"0") == 1000


def test_its_memory_does_not_grow_with_the_keys() -> None:
    memory = 24 * 10_000
    tracemalloc.start()
    try:
        offset_map = OffsetMap(memory)
        for n in range(30_000):
            offset_map.put(n.to_bytes(4, "big"), n)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 8_000 < len(offset_map) == offset_map.capacity <= 9_000
    assert peak < memory + 20_000


@pytest.mark.parametrize("most_keys", [0, 1, 2, 3, 10, 1000])
def test_the_map_is_only_as_large_as_the_number_of_keys_needs(most_keys: int) -> None:
    offset_map = OffsetMap(10**9, most_keys=most_keys)
    assert all(offset_map.put(str(n).encode(), n) for n in range(most_keys))
    assert offset_map.capacity < 3 * most_keys + 10
