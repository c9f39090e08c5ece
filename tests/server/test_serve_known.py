"""Frames in a row that are known by how they begin: served alike by both versions."""

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BarnabasError
from barnabas.server.requests.fast_path import SEND_AT
from barnabas.server.requests.frame_run import FrameRun
from barnabas.server.requests.replies import Pending
from tests.support.twins import both, in_python

NAME = "barnabas.server.requests.fast_path"
SIZE = 12  # bytes of a frame that tell what serves it: API, version, correlation id, a name
MOST = 1_000
PENDING = Pending()
LARGE = bytes(SEND_AT)
API = 9


def a_frame(name: bytes, number: int = 0, rest: bytes = b"", api: int = API) -> bytes:
    body = struct.pack(">ii", api, number) + name + rest
    return struct.pack(">i", len(body)) + body


class Echo:
    """Serves the next frame alone, with what `reply` makes of it and its correlation id."""

    def __init__(self, reply: Callable[[memoryview, int], Any]) -> None:
        self._reply = reply

    def serve_run(self, run: FrameRun) -> Pending | None:
        length, _, number = struct.unpack_from(">iii", run.view, run.start)
        reply = self._reply(run.view[run.start + 4 : run.start + 4 + length], number)
        if reply is None:
            return None
        run.pass_over(length)
        if isinstance(reply, Pending):
            return reply
        for each in reply:
            run.add(each)
        return None


def fail(*_: object) -> None:
    raise BarnabasError("refused")


SHORTCUTS: dict[bytes, tuple[int, Any]] = {
    b"echo": (API, Echo(lambda frame, number: [b"%d:" % number + bytes(frame)])),
    b"list": (API, Echo(lambda frame, _: [b"one", frame[8:]])),
    b"none": (API, Echo(lambda *_: None)),
    b"wait": (API, Echo(lambda *_: PENDING)),
    b"much": (API, Echo(lambda *_: [LARGE])),
    b"fail": (API, Echo(fail)),
}
FRAMES = st.builds(
    a_frame,
    st.sampled_from([*sorted(set(SHORTCUTS) - {b"fail"}), b"new!", b"short"[:2]]),
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=20),
    st.sampled_from([API, API, API, 5]),
)


def served(twin: ModuleType, data: bytes, start: int = 0, most: int = MOST, queued: int = 0) -> Any:
    out: list[Any] = []
    view = memoryview(bytearray(data))
    told = twin.serve_known(view, start, len(data), most, SHORTCUTS, SIZE, out, queued)
    return tuple(told), [bytes(each) for each in out]


@pytest.mark.parametrize("twin", both(NAME))
@given(
    frames=st.lists(FRAMES, max_size=6),
    cut=st.integers(0, 20),
    most=st.sampled_from([15, MOST]),
    queued=st.sampled_from([0, SEND_AT]),
)
def test_any_frames_are_served_alike_by_both(
    twin: ModuleType, frames: list[bytes], cut: int, most: int, queued: int
) -> None:
    data = b"before" + b"".join(frames)
    data = data[: max(6, len(data) - cut)]
    expected = served(in_python(NAME), data, 6, most, queued)
    assert served(twin, data, 6, most, queued) == expected


@pytest.mark.parametrize("twin", both(NAME))
def test_it_ends_before_a_frame_that_needs_the_long_way(twin: ModuleType) -> None:
    known = a_frame(b"echo", 7, b"rest")
    told, out = served(twin, known + known + a_frame(b"none") + known)
    assert told == (2 * len(known), 2, len(known) - 4, 2 * (2 + len(known) - 4), None)
    assert out == [b"7:" + known[4:]] * 2


@pytest.mark.parametrize("twin", both(NAME))
def test_it_ends_after_a_frame_that_has_to_wait(twin: ModuleType) -> None:
    told, out = served(twin, a_frame(b"wait") + a_frame(b"echo"))
    assert told == (16, 1, 12, 0, PENDING)
    assert out == []


@pytest.mark.parametrize("twin", both(NAME))
def test_it_ends_when_there_is_enough_to_be_sent(twin: ModuleType) -> None:
    told, out = served(twin, a_frame(b"much") * 2)
    assert told == (16, 1, 12, SEND_AT, None)
    assert out == [LARGE]


@pytest.mark.parametrize("twin", both(NAME))
def test_what_a_shortcut_raises_is_raised_with_the_answers_before_it_kept(
    twin: ModuleType,
) -> None:
    data, out = a_frame(b"echo") + a_frame(b"fail"), list[Any]()
    with pytest.raises(BarnabasError):
        twin.serve_known(memoryview(data), 0, len(data), MOST, SHORTCUTS, SIZE, out, 0)
    assert len(out) == 1
