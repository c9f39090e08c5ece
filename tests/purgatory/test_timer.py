"""The timer: tasks run on time, by one handle of the loop, without needless calls."""

import asyncio
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.purgatory.timer import Timer, whole_ms_ahead, whole_ms_passed
from barnabas.purgatory.timing_wheel import TimerTask

from .virtual_loop import VirtualLoop


class Call(TimerTask):
    """Calls its callback."""

    def __init__(self, run: Callable[[], object]) -> None:
        super().__init__()
        self._call = run

    def run(self) -> None:
        self._call()


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop(now=12.3456)
    yield made
    made.close()


@pytest.fixture
def timer(loop: VirtualLoop) -> Timer:
    return Timer(loop)


@given(st.integers(0, 10**13))
def test_a_whole_millisecond_of_the_loop_is_read_as_itself(ms: int) -> None:
    assert whole_ms_passed(ms / 1000) == ms
    assert whole_ms_ahead(ms / 1000) == ms


@given(st.floats(0, 1e9))
def test_milliseconds_are_rounded_down_for_now_and_up_for_deadlines(seconds: float) -> None:
    passed, ahead = whole_ms_passed(seconds), whole_ms_ahead(seconds)
    assert passed / 1000 <= seconds <= ahead / 1000
    assert ahead - passed <= 1


@settings(deadline=None)
@given(
    start=st.floats(0, 1e6),  # beyond this, asyncio's resolution is too coarse
    waits=st.lists(st.tuples(st.floats(0, 10), st.integers(1, 60_000)), max_size=30),
)
def test_tasks_run_once_never_early_and_at_most_a_tick_late(
    start: float, waits: list[tuple[float, int]]
) -> None:
    """At any loop time: its float may be next to a whole millisecond, or far from one."""
    loop = VirtualLoop(start)
    timer = Timer(loop)
    ran: list[tuple[float, float]] = []

    def add(timeout_ms: int) -> None:
        due = loop.time() + timeout_ms / 1000
        assert timer.add(Call(lambda: ran.append((due, loop.time()))), timeout_ms)

    for delay, timeout_ms in waits:
        loop.call_later(delay, add, timeout_ms)
    loop.run_until_idle()
    loop.close()

    rounding = 1e-6
    assert len(ran) == len(waits)
    assert all(due - rounding <= now <= due + 0.001 + rounding for due, now in ran)
    # Each task costs at most one call per wheel and one to add it, and each
    # call two turns: rounding may wake the loop slightly before the requested time.
    assert loop.turns <= 12 * len(waits) + 2


def test_without_tasks_nothing_is_armed(loop: VirtualLoop, timer: Timer) -> None:
    assert loop.handles == []
    timer.add(Call(lambda: None), 15)
    loop.run_until_idle()
    assert loop.armed() == []
    assert len(loop.handles) == 1
    assert len(timer) == 0


def test_one_handle_serves_all_and_only_an_earlier_deadline_rearms_it(
    loop: VirtualLoop, timer: Timer
) -> None:
    ran: list[int] = []
    for timeout_ms in (15, 16, 15, 3_000, 900, 60_000):
        timer.add(Call(partial(ran.append, timeout_ms)), timeout_ms)
        assert len(loop.armed()) == 1
    assert len(loop.handles) == 1
    timer.add(Call(lambda: ran.append(5)), 5)
    assert len(loop.armed()) == 1
    assert len(loop.handles) == 2
    loop.run_until_idle()
    assert ran == [5, 15, 15, 16, 900, 3_000, 60_000]


def test_a_cancelled_task_does_not_run_and_costs_one_idle_call_at_most(
    loop: VirtualLoop, timer: Timer
) -> None:
    for _ in range(1_000):
        task = Call(lambda: pytest.fail("it was cancelled"))
        timer.add(task, 30_000)
        assert timer.cancel(task)
        assert not timer.cancel(task)
    assert len(timer) == 0
    assert len(loop.handles) == 1
    loop.run_until_idle()
    assert len(loop.handles) == 1
    assert loop.errors == []


def test_a_task_without_a_timeout_is_not_added(loop: VirtualLoop, timer: Timer) -> None:
    task = Call(lambda: pytest.fail("it was handed back"))
    assert not timer.add(task, 0)
    assert not timer.add(task, -1)
    assert len(timer) == 0
    assert loop.handles == []


def test_an_error_of_a_task_is_reported_and_stops_no_other(loop: VirtualLoop, timer: Timer) -> None:
    ran: list[str] = []
    fault = ValueError("of this task alone")

    def fail() -> None:
        raise fault

    timer.add(Call(fail), 10)
    timer.add(Call(lambda: ran.append("same tick")), 10)
    timer.add(Call(lambda: ran.append("later")), 11)
    loop.run_until_idle()
    assert ran == ["same tick", "later"]
    assert loop.errors == [fault]


def test_a_task_cancelled_by_another_of_its_tick_does_not_run(
    loop: VirtualLoop, timer: Timer
) -> None:
    victim = Call(lambda: pytest.fail("it was cancelled"))
    timer.add(Call(lambda: timer.cancel(victim)), 10)
    timer.add(victim, 10)
    loop.run_until_idle()
    assert loop.errors == []


def test_a_task_rescheduled_by_another_of_its_tick_runs_at_its_new_deadline(
    loop: VirtualLoop, timer: Timer
) -> None:
    ran: list[float] = []
    put_off = Call(lambda: ran.append(loop.time()))

    def put_it_off() -> None:
        timer.cancel(put_off)
        timer.add(put_off, 500)

    timer.add(Call(put_it_off), 10)
    timer.add(put_off, 10)
    start = loop.time()
    loop.run_until_idle()
    assert ran == [pytest.approx(start + 0.510, abs=0.002)]


def test_tasks_may_add_tasks_and_themselves(loop: VirtualLoop, timer: Timer) -> None:
    ran: list[float] = []

    def again() -> None:
        ran.append(loop.time())
        if len(ran) < 5:
            timer.add(task, 7)

    task = Call(again)
    timer.add(task, 7)
    loop.run_until_idle()
    gaps = [later - earlier for earlier, later in pairwise(ran)]
    assert gaps == [pytest.approx(0.007)] * 4
    assert len(loop.handles) == 5


def test_a_slow_task_delays_others_but_loses_none(loop: VirtualLoop, timer: Timer) -> None:
    ran: list[int] = []
    timer.add(Call(lambda: loop.spend(2.5)), 10)
    for timeout_ms in (11, 400, 2_400, 9_000):
        timer.add(Call(partial(ran.append, timeout_ms)), timeout_ms)
    loop.run_until_idle()
    assert ran == [11, 400, 2_400, 9_000]


@pytest.mark.parametrize("others_wait", [False, True])
def test_after_a_long_idle_time_a_short_timeout_is_still_exact(
    loop: VirtualLoop, timer: Timer, others_wait: bool
) -> None:
    if others_wait:
        timer.add(Call(lambda: None), 10 * 24 * 3_600_000)
    loop.spend(3 * 24 * 3600)
    ran: list[float] = []
    start = loop.time()
    timer.add(Call(lambda: ran.append(loop.time())), 30)
    loop.run_until_idle()
    assert ran == [pytest.approx(start + 0.030, abs=0.001)]


def test_after_close_nothing_runs_or_stays_armed(loop: VirtualLoop, timer: Timer) -> None:
    waiting = Call(lambda: pytest.fail("the timer is closed"))
    timer.add(Call(timer.close), 10)
    timer.add(waiting, 10)
    timer.add(Call(lambda: pytest.fail("the timer is closed")), 20)
    loop.run_until_idle()
    timer.add(waiting, 5)
    assert loop.armed() == []
    assert loop.errors == []


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_on_a_real_loop_tasks_run_in_order_and_never_early(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    source = random.Random(7)

    async def scenario() -> list[tuple[float, float]]:
        loop = asyncio.get_running_loop()
        timer = Timer(loop)
        ran: list[tuple[float, float]] = []
        done = asyncio.Event()

        def note(due: float) -> None:
            ran.append((due, loop.time()))
            if not len(timer):
                done.set()

        for _ in range(500):
            timeout_ms = source.randrange(1, 120)
            due = loop.time() + timeout_ms / 1000
            timer.add(Call(partial(note, due)), timeout_ms)
        await done.wait()
        return ran

    with asyncio.Runner(loop_factory=new_loop) as runner:
        ran = runner.run(scenario())
    assert len(ran) == 500
    assert all(now >= due - 1e-6 for due, now in ran)
