"""The timing wheel: it returns what a sorted list would, and never early."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.base.errors import LawBroken
from barnabas.purgatory.timing_wheel import WHEEL_SIZE, TimerTask, TimingWheel


class Task(TimerTask):
    """A task that only has a name."""

    def __init__(self, name: int = 0) -> None:
        super().__init__()
        self.name = name

    def run(self) -> None:
        raise AssertionError("the wheel runs nothing itself")


def added(wheel: TimingWheel, *deadlines_ms: int) -> list[Task]:
    tasks = [Task(name) for name in range(len(deadlines_ms))]
    for task, deadline_ms in zip(tasks, deadlines_ms, strict=True):
        assert wheel.add(task, deadline_ms)
    return tasks


def deadlines(tasks: list[TimerTask]) -> list[int]:
    return [task.deadline_ms for task in tasks]


def test_a_task_fires_at_its_deadline_and_not_before() -> None:
    wheel = TimingWheel()
    (task,) = added(wheel, 7)
    assert wheel.advance(6) == []
    assert wheel.advance(7) == [task]
    assert wheel.advance(100) == []
    assert len(wheel) == 0


@pytest.mark.parametrize("deadline_ms", [99, 100])
def test_a_task_already_due_is_not_added(deadline_ms: int) -> None:
    wheel = TimingWheel(now_ms=100)
    assert not wheel.add(Task(), deadline_ms)
    assert len(wheel) == 0
    assert wheel.next_bucket_ms is None


@pytest.mark.parametrize("span_ms", [20, 400, 8_000, 160_000, 3_200_000])
@pytest.mark.parametrize("start_ms", [0, 1, 19, 12_345])
def test_deadlines_around_the_end_of_a_wheel_fire_exactly(span_ms: int, start_ms: int) -> None:
    ahead = [span_ms - 1, span_ms, span_ms + 1]
    wheel = TimingWheel(start_ms)
    added(wheel, *(start_ms + ms for ms in ahead))
    for ms in ahead:
        assert wheel.advance(start_ms + ms - 1) == []
        assert deadlines(wheel.advance(start_ms + ms)) == [start_ms + ms]


def test_overflow_wheels_lead_to_a_deadline_in_few_steps() -> None:
    """A deadline of 25 days is reached by one bucket of each wheel, not by ticks."""
    wheel = TimingWheel(now_ms=1)
    deadline_ms = 2**31 - 1
    added(wheel, deadline_ms)
    steps = []
    while (bucket_ms := wheel.next_bucket_ms) is not None:
        steps.append(bucket_ms)
        fired = wheel.advance(bucket_ms)
    assert deadlines(fired) == [deadline_ms]
    assert steps == sorted(set(steps))
    assert len(steps) <= 8
    assert all(step <= deadline_ms for step in steps)


def test_tasks_of_several_wheels_fire_in_the_order_of_their_deadlines() -> None:
    wheel = TimingWheel()
    added(wheel, 170_000, 3, 9_000, 390, 3, 399, 25, 19, 20)
    assert deadlines(wheel.advance(200_000)) == [3, 3, 19, 20, 25, 390, 399, 9_000, 170_000]


def test_a_cancelled_task_does_not_fire_and_cancels_once() -> None:
    wheel = TimingWheel()
    first, second, third = added(wheel, 50, 50, 50)
    assert wheel.cancel(second)
    assert not wheel.cancel(second)
    assert len(wheel) == 2
    assert wheel.advance(50) == [first, third]
    assert not wheel.cancel(first)
    assert len(wheel) == 0


def test_buckets_emptied_by_cancelling_need_no_advance() -> None:
    wheel = TimingWheel()
    near, far = added(wheel, 5, 10)
    seen = [wheel.next_bucket_ms]
    for task in (near, far):
        wheel.cancel(task)
        seen.append(wheel.next_bucket_ms)
    wheel.add(near, 5)
    seen.append(wheel.next_bucket_ms)
    assert seen == [5, 10, None, 5]


def test_adding_and_cancelling_over_and_over_queues_each_bucket_once() -> None:
    wheel = TimingWheel()
    task = Task()
    for round_ in range(3):
        for ahead in range(1, 8_000):
            wheel.add(task, wheel.now_ms + ahead)
            wheel.cancel(task)
        assert len(wheel._queue) <= 3 * WHEEL_SIZE
        wheel.advance(wheel.now_ms + 1_000 * round_)
    assert wheel.next_bucket_ms is None


def test_a_task_that_waits_cannot_be_added_again() -> None:
    wheel = TimingWheel()
    (task,) = added(wheel, 10)
    with pytest.raises(LawBroken, match="PUR-3"):
        wheel.add(task, 20)
    assert wheel.advance(10) == [task]


def test_a_task_that_fired_can_be_added_again() -> None:
    wheel = TimingWheel()
    (task,) = added(wheel, 10)
    wheel.advance(10)
    assert wheel.add(task, 20)
    assert wheel.advance(20) == [task]


def test_time_does_not_go_back() -> None:
    wheel = TimingWheel(now_ms=10)
    with pytest.raises(LawBroken, match="PUR-4"):
        wheel.advance(9)


@dataclass
class SortedList:
    """A model of the wheel: a sorted list."""

    now_ms: int
    waiting: dict[Task, int] = field(default_factory=dict)

    def advance(self, now_ms: int) -> list[tuple[int, int]]:
        self.now_ms = now_ms
        due = [(ms, task.name) for task, ms in self.waiting.items() if ms <= now_ms]
        self.waiting = {task: ms for task, ms in self.waiting.items() if ms > now_ms}
        return sorted(due)


# Short and long spans: wheels differ by powers of twenty.
spans_ms = st.one_of(
    st.integers(-2, 45), st.integers(0, 900), st.integers(0, 20_000), st.integers(0, 10**7)
)
steps = st.one_of(
    st.tuples(st.just("add"), spans_ms),
    st.tuples(st.just("cancel"), st.integers(0, 200)),
    st.tuples(st.just("advance"), spans_ms),
    st.tuples(st.just("next bucket"), st.just(0)),
)


@settings(max_examples=400, deadline=None)
@given(start_ms=st.integers(0, 10**13), script=st.lists(steps, max_size=120))
def test_any_sequence_of_steps_fires_what_a_sorted_list_would(
    start_ms: int, script: list[tuple[str, int]]
) -> None:
    wheel, model = TimingWheel(start_ms), SortedList(start_ms)
    tasks: list[Task] = []

    def advance(now_ms: int) -> None:
        fired = wheel.advance(now_ms)
        assert deadlines(fired) == sorted(deadlines(fired))
        names = [(task.deadline_ms, task.name) for task in fired if isinstance(task, Task)]
        assert sorted(names) == model.advance(now_ms)

    for step, number in script:
        if step == "add":
            tasks.append(Task(len(tasks)))
            deadline_ms = model.now_ms + number
            assert wheel.add(tasks[-1], deadline_ms) == (deadline_ms > model.now_ms)
            if deadline_ms > model.now_ms:
                model.waiting[tasks[-1]] = deadline_ms
        elif step == "cancel" and tasks:
            task = tasks[number % len(tasks)]
            assert wheel.cancel(task) == (model.waiting.pop(task, None) is not None)
        elif step == "advance":
            advance(model.now_ms + max(0, number))
        elif step == "next bucket" and wheel.next_bucket_ms is not None:
            advance(wheel.next_bucket_ms)
        assert len(wheel) == len(model.waiting)
        bucket_ms, earliest_ms = wheel.next_bucket_ms, min(model.waiting.values(), default=None)
        assert (bucket_ms is None) == (earliest_ms is None)
        if bucket_ms is not None and earliest_ms is not None:
            assert model.now_ms < bucket_ms <= earliest_ms

    advance(model.now_ms + 10**8)
    assert len(wheel) == 0
