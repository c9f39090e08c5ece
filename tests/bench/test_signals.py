"""Signals in a run whose figures took long to get: the first one ends it, and loses nothing."""

import os
import signal
from collections.abc import Iterator

import pytest

from barnabas.bench.compare.signals import signalled_once, uninterrupted


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """One of them, of which the process would not die."""
    came: list[int] = []
    before = signal.signal(request.param, lambda each, _: came.append(each))
    yield request.param
    signal.signal(request.param, before)
    assert came == [request.param], "whoever handled it before was told of it, once"


def test_the_first_ends_the_block_and_a_second_does_not_disturb_its_clearing_up(
    number: signal.Signals,
) -> None:
    cleared: list[str] = []

    def work() -> None:
        try:
            os.kill(os.getpid(), number)
            cleared.append("not yet")
        finally:
            os.kill(os.getpid(), number)
            cleared.append("cleared")

    with pytest.raises(KeyboardInterrupt), signalled_once():
        work()
    assert cleared == ["cleared"]


def test_one_that_comes_while_figures_are_written_is_heeded_afterwards(
    number: signal.Signals,
) -> None:
    written = False
    handler = signal.getsignal(number)
    with uninterrupted():
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        written = True
    assert written
    assert signal.getsignal(number) is handler


def test_one_that_ends_the_work_is_heeded_again_when_all_is_written(
    number: signal.Signals,
) -> None:
    done: list[str] = []

    def work() -> None:
        os.kill(os.getpid(), number)
        done.append("went on")

    with uninterrupted():
        with pytest.raises(KeyboardInterrupt), signalled_once():
            work()
        os.kill(os.getpid(), number)
        done.append("written")
    assert done == ["written"]


def test_one_that_came_is_heeded_also_if_the_block_fails(number: signal.Signals) -> None:
    def work() -> None:
        os.kill(os.getpid(), number)
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"), uninterrupted():
        work()
