"""A fetch that begins like one before: what is not as usual takes the long way, by both twins."""

from types import ModuleType

import pytest

from barnabas.wire.fetch import single_fetch
from barnabas.wire.fetch.single_fetch import SingleFetch
from tests.support.twins import both, compiled

OFFSET_AT = 10
FRAME = bytes(OFFSET_AT + 8 + 12)


@pytest.mark.parametrize("twin", both("barnabas.server.requests.repeated_fetch"))
def test_a_frame_of_another_length_takes_the_long_way(twin: ModuleType) -> None:
    asked: list[tuple[str, int]] = []
    single = SingleFetch("orders", 0, 0, 100, 100, 1, -1, False, OFFSET_AT)
    ready = (compiled(single_fetch.__name__) or single_fetch).SingleAnswer(b"", 24, b"", b"")
    again = twin.RepeatedFetch(
        single, ready, memoryview(FRAME), lambda *key: asked.append(key), lambda _: None, 100
    )
    for length in range(OFFSET_AT, len(FRAME) + 5):
        assert again(memoryview(bytes(length)), 7) is None
    assert asked == [("orders", 0)]  # by the one that is as long
