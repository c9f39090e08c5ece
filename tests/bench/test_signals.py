"""Signals in a run whose figures took long to get: the first one ends it, and loses nothing."""

import os
import signal
from collections.abc import Iterator

import pytest

from barnabas.bench.signals import signalled_once, uninterrupted


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
