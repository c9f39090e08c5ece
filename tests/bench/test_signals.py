"""Signals in a long run do not lose its figures."""

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
    assert came == [request.param], "the former handler got it, once"


def test_the_first_signal_ends_the_block_and_a_second_does_not_interrupt_the_cleanup(
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


def test_a_signal_during_the_write_is_handled_afterwards(
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


def test_a_signal_that_ended_the_run_ends_the_command_after_the_write(
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


def test_a_deferred_signal_is_handled_even_if_the_block_fails(number: signal.Signals) -> None:
    def work() -> None:
        os.kill(os.getpid(), number)
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"), uninterrupted():
        work()
