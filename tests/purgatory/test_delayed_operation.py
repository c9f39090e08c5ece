"""Delayed operations: each completes exactly once, by an event or by its timeout."""

import gc
import weakref
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.base.errors import LawBroken
from barnabas.purgatory.delayed_operation import DelayedOperation, Purgatory
from barnabas.purgatory.timer import Timer

from .virtual_loop import VirtualLoop


class Waiting(DelayedOperation):
    """Completes once it is `ready`, and records its callbacks."""

    def __init__(self, ready: bool = False, then: Callable[[], object] | None = None) -> None:
        super().__init__()
        self.ready = ready
        self.tries = 0
        self.events: list[str] = []
        self._then = then

    def try_complete(self) -> bool:
        self.tries += 1
        return self.ready

    def on_complete(self) -> None:
        self.events.append("completed")
        if self._then is not None:
            self._then()

    def on_expire(self) -> None:
        self.events.append("expired")


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()
    yield made
    made.close()


@pytest.fixture
def timer(loop: VirtualLoop) -> Timer:
    return Timer(loop)


@pytest.fixture
def purgatory(timer: Timer) -> Purgatory[Waiting]:
    return Purgatory(timer)


def counts(purgatory: Purgatory[Waiting]) -> tuple[int, int]:
    return purgatory.watched, purgatory.delayed


def test_a_satisfied_operation_completes_at_once(purgatory: Purgatory[Waiting]) -> None:
    operation = Waiting(ready=True)
    assert purgatory.try_complete_else_watch(operation, ["a"], 100)
    assert operation.events == ["completed"]
    assert counts(purgatory) == (0, 0)


def test_an_event_completes_only_satisfied_operations(
    purgatory: Purgatory[Waiting], timer: Timer
) -> None:
    first, second = Waiting(), Waiting()
    assert not purgatory.try_complete_else_watch(first, ["a", "b"], 100)
    assert not purgatory.try_complete_else_watch(second, ["a"], 100)
    assert counts(purgatory) == (3, 2)

    assert purgatory.check_and_complete("a") == 0
    first.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert (first.events, second.events) == (["completed"], [])
    assert counts(purgatory) == (1, 1)
    assert len(timer) == 1


def test_an_event_of_many_keys_checks_an_operation_once(
    purgatory: Purgatory[Waiting],
) -> None:
    both, other, elsewhere = Waiting(), Waiting(), Waiting()
    purgatory.try_complete_else_watch(both, ["a", "b"], 100)
    purgatory.try_complete_else_watch(other, ["b"], 100)
    purgatory.try_complete_else_watch(elsewhere, ["c"], 100)
    both.ready = True
    assert purgatory.check_all(["a", "b", "nobody's"]) == 1
    assert (both.tries, other.tries, elsewhere.tries) == (2, 2, 1)
    assert both.events == ["completed"]


def test_an_event_of_many_keys_skips_operations_that_an_earlier_one_cancelled(
    purgatory: Purgatory[Waiting],
) -> None:
    second = Waiting()
    first = Waiting(then=lambda: purgatory.cancel(second))
    purgatory.try_complete_else_watch(first, ["a"], 100)
    purgatory.try_complete_else_watch(second, ["b"], 100)
    first.ready = second.ready = True
    assert purgatory.check_all(["a", "b"]) == 1
    assert second.tries == 1


def test_a_timeout_completes_an_operation_without_an_event(
    purgatory: Purgatory[Waiting], loop: VirtualLoop
) -> None:
    operation = Waiting()
    purgatory.try_complete_else_watch(operation, ["a", "b"], 100)
    loop.run_until_idle()
    assert loop.time() == pytest.approx(0.1)
    assert operation.events == ["completed", "expired"]
    assert counts(purgatory) == (0, 0)


def test_an_operation_completed_by_an_event_does_not_expire(
    purgatory: Purgatory[Waiting], loop: VirtualLoop
) -> None:
    operation = Waiting()
    purgatory.try_complete_else_watch(operation, ["a"], 100)
    operation.ready = True
    purgatory.check_and_complete("a")
    loop.run_until_idle()
    assert purgatory.check_and_complete("a") == 0
    assert not operation.force_complete()
    assert operation.events == ["completed"]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_an_operation_without_a_timeout_expires_at_once(
    purgatory: Purgatory[Waiting], timeout_ms: int
) -> None:
    operation = Waiting()
    assert purgatory.try_complete_else_watch(operation, ["a"], timeout_ms)
    assert operation.events == ["completed", "expired"]
    assert counts(purgatory) == (0, 0)


def test_an_event_of_an_unwatched_key_does_nothing(
    purgatory: Purgatory[Waiting],
) -> None:
    other = Waiting()
    purgatory.try_complete_else_watch(other, ["a"], 100)
    assert purgatory.check_and_complete("b") == 0
    assert other.tries == 1
    assert counts(purgatory) == (1, 1)


def test_a_key_named_twice_is_watched_once(purgatory: Purgatory[Waiting]) -> None:
    operation = Waiting()
    purgatory.try_complete_else_watch(operation, ["a", "a", "b"], 100)
    assert purgatory.watched == 2
    assert operation.force_complete()
    assert purgatory.watched == 0


def test_operations_of_a_key_complete_in_order_of_arrival(purgatory: Purgatory[Waiting]) -> None:
    order: list[int] = []
    for number in range(5):
        operation = Waiting(then=partial(order.append, number))
        purgatory.try_complete_else_watch(operation, ["a"], 100)
        operation.ready = True
    assert purgatory.check_and_complete("a") == 5
    assert order == [0, 1, 2, 3, 4]


def test_one_operation_can_be_cancelled(purgatory: Purgatory[Waiting], loop: VirtualLoop) -> None:
    operation = Waiting()
    purgatory.try_complete_else_watch(operation, ["a"], 100)
    assert purgatory.cancel(operation)
    assert not purgatory.cancel(operation)
    loop.run_until_idle()
    assert operation.events == []
    assert counts(purgatory) == (0, 0)


def test_purgatories_share_a_timer_and_count_their_own(timer: Timer, loop: VirtualLoop) -> None:
    produce, fetch = Purgatory[Waiting](timer), Purgatory[Waiting](timer)
    mine, yours = Waiting(), Waiting()
    produce.try_complete_else_watch(mine, ["a"], 100)
    fetch.try_complete_else_watch(yours, ["a"], 100)
    assert not produce.cancel(yours)
    assert (produce.delayed, fetch.delayed, len(timer)) == (1, 1, 2)
    loop.run_until_idle()
    assert (produce.delayed, fetch.delayed, len(timer)) == (0, 0, 0)


def test_completing_one_may_complete_add_and_cancel_others_of_the_same_key(
    purgatory: Purgatory[Waiting],
) -> None:
    added, cancelled, nested = Waiting(), Waiting(ready=False), Waiting()

    def disturb() -> None:
        assert purgatory.cancel(cancelled)
        assert purgatory.check_and_complete("a") == 1
        assert not purgatory.try_complete_else_watch(added, ["a"], 100)

    for operation in (first := Waiting(then=disturb), cancelled, nested):
        purgatory.try_complete_else_watch(operation, ["a"], 100)
        operation.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert first.events == nested.events == ["completed"]
    assert cancelled.events == []
    assert added.tries == 1
    assert counts(purgatory) == (1, 1)


def test_operations_that_complete_each_other_terminate(purgatory: Purgatory[Waiting]) -> None:
    """As when each completed fetch leads to the client's next one."""
    made: list[Waiting] = []

    def fetch_again() -> None:
        made.append(Waiting(then=fetch_again))
        purgatory.try_complete_else_watch(made[-1], ["a"], 100)

    fetch_again()
    for round_ in range(1, 4):
        made[-1].ready = True
        assert purgatory.check_and_complete("a") == 1
        assert len(made) == round_ + 1
    assert counts(purgatory) == (1, 1)


def test_an_error_of_one_operation_is_reported_and_the_others_complete(
    purgatory: Purgatory[Waiting], loop: VirtualLoop
) -> None:
    fault = ValueError("its client is gone")

    def fail() -> None:
        raise fault

    failing, other = Waiting(then=fail), Waiting()
    for operation in (failing, other):
        purgatory.try_complete_else_watch(operation, ["a"], 100)
        operation.ready = True
    assert purgatory.check_and_complete("a") == 2
    assert other.events == ["completed"]
    assert loop.errors == [fault]
    assert counts(purgatory) == (0, 0)


def test_an_operation_whose_try_complete_raises_waits_for_its_timeout(
    purgatory: Purgatory[Waiting], loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = ValueError("no such partition")

    def fail(operation: Waiting) -> bool:
        raise fault

    operation = Waiting()
    purgatory.try_complete_else_watch(operation, ["a"], 100)
    monkeypatch.setattr(Waiting, "try_complete", fail)
    assert purgatory.check_and_complete("a") == 0
    assert loop.errors == [fault]
    loop.run_until_idle()
    assert operation.events == ["completed", "expired"]


def test_an_operation_that_raises_when_added_raises_to_the_caller_and_does_not_wait(
    purgatory: Purgatory[Waiting], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(operation: Waiting) -> bool:
        raise ValueError("no such partition")

    monkeypatch.setattr(Waiting, "try_complete", fail)
    with pytest.raises(ValueError, match="no such partition"):
        purgatory.try_complete_else_watch(Waiting(), ["a"], 100)
    assert counts(purgatory) == (0, 0)


def test_unhashable_keys_leave_nothing_waiting(purgatory: Purgatory[Waiting], timer: Timer) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        purgatory.try_complete_else_watch(Waiting(), [("a", [])], 100)
    assert counts(purgatory) == (0, 0)
    assert len(timer) == 0


def test_a_completed_operation_cannot_be_watched(purgatory: Purgatory[Waiting]) -> None:
    operation = Waiting(ready=True)
    purgatory.try_complete_else_watch(operation, ["a"], 100)
    with pytest.raises(LawBroken, match="PUR-1"):
        purgatory.try_complete_else_watch(operation, ["a"], 100)


def test_a_waiting_operation_cannot_be_watched_again(purgatory: Purgatory[Waiting]) -> None:
    operation = Waiting()
    purgatory.try_complete_else_watch(operation, ["a"], 100)
    with pytest.raises(LawBroken, match="PUR-2"):
        purgatory.try_complete_else_watch(operation, ["b"], 100)
    assert counts(purgatory) == (1, 1)


def test_a_completed_operation_is_not_referenced(purgatory: Purgatory[Waiting]) -> None:
    """It is freed with its last reference, without the garbage collector."""
    gc.disable()
    try:
        operation = Waiting()
        purgatory.try_complete_else_watch(operation, ["a", "b"], 60_000)
        held = weakref.ref(operation)
        operation.force_complete()
        del operation
        assert held() is None
    finally:
        gc.enable()


keys = st.lists(st.sampled_from("abcd"), max_size=3)
steps = st.one_of(
    st.tuples(st.just("watch"), keys, st.integers(0, 500)),
    st.tuples(st.just("satisfy"), keys, st.integers(0, 50)),
    st.tuples(st.just("check"), keys, st.just(0)),
    st.tuples(st.just("cancel"), keys, st.just(0)),
    st.tuples(st.just("pass"), keys, st.integers(1, 300)),
)


@settings(deadline=None)
@given(st.lists(steps, max_size=60))
def test_any_history_completes_each_operation_once_and_watches_only_waiting_ones(
    history: list[tuple[str, list[str], int]],
) -> None:
    loop = VirtualLoop()
    purgatory = Purgatory[Waiting](Timer(loop))
    operations: list[Waiting] = []
    for step, names, number in history:
        if step == "watch":
            operations.append(Waiting())
            purgatory.try_complete_else_watch(operations[-1], names, number)
        elif step == "satisfy" and operations:
            operations[number % len(operations)].ready = True
        elif step == "pass":
            loop.call_later(number / 1000, loop.stop)
            loop.run_forever()
        for name in names:
            if step == "check":
                purgatory.check_and_complete(name)
            elif step == "cancel":
                for operation in operations:
                    if name in operation.keys:
                        purgatory.cancel(operation)
        waiting = [operation for operation in operations if operation.purgatory is not None]
        assert not any(operation.completed for operation in waiting)
        assert purgatory.delayed == len(waiting)
        assert purgatory.watched == sum(len(operation.keys) for operation in waiting)

    loop.run_until_idle()
    loop.close()
    assert counts(purgatory) == (0, 0)
    assert loop.errors == []
    for operation in operations:
        assert operation.completed == bool(operation.events)
        assert operation.events in ([], ["completed"], ["completed", "expired"])
