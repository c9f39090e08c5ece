"""The loop monitor: each long turn of the loop is counted, and the log says what ran."""

import asyncio
import errno
import logging
import os
import threading
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from barnabas.server.metrics import loop_monitor
from barnabas.server.metrics.loop_monitor import LongTurn, LoopMonitor, Running, running_on
from barnabas.server.metrics.run_delay import RunDelay
from barnabas.server.requests.dispatch import Dispatch
from tests.server.raw import Insight, api_versions, on_uvloop, until, with_broker


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "barnabas.loop")


def hold_the_loop(seconds: float) -> None:
    """In CPU time: on a busy machine it takes longer."""
    end = thread_time() + seconds
    while thread_time() < end:
        pass


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "barnabas.loop"]


def has_more(monitor: LoopMonitor, than: int) -> bool:
    return monitor.held.count > than


def monitored(*turns: float) -> LoopMonitor:
    """Hold a loop for these times, each in a turn of its own."""

    async def scenario() -> LoopMonitor:
        monitor = LoopMonitor()
        monitor.start()
        try:
            await asyncio.sleep(0.05)
            for seconds in turns:
                before = monitor.held.count
                hold_the_loop(seconds)
                await until(partial(has_more, monitor, before))
        finally:
            monitor.stop()
        return monitor

    return on_uvloop(scenario())


def test_a_turn_that_holds_the_loop_is_counted_and_logged_once_with_what_ran(
    caplog: pytest.LogCaptureFixture,
) -> None:
    monitor = monitored(0.5)
    assert monitor.longest_ns >= 400_000_000
    first = lines(caplog)[0]
    assert "loop held ms=" in first
    assert "hold_the_loop" in first or "task=monitored.<locals>.scenario" in first


def test_many_long_turns_are_all_counted_but_do_not_flood_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_ns = 0
    monitor = LoopMonitor(lambda: now_ns)
    for _ in range(5):
        monitor.on_long_turn(LongTurn(150_000_000, 150_000_000))
    assert (monitor.held.count, len(lines(caplog))) == (5, 1)
    now_ns += 1_000_000_000
    monitor.on_long_turn(LongTurn(150_000_000, 150_000_000))
    assert len(lines(caplog)) == 2
    assert lines(caplog)[-1].endswith("unlogged=4")


def test_a_turn_that_only_waited_for_the_machine_is_counted_but_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    monitor = LoopMonitor()
    monitor.on_long_turn(LongTurn(500_000_000, 49_000_000, 402_000_000))
    assert (monitor.held.count, lines(caplog)) == (1, [])
    monitor.on_long_turn(
        LongTurn(500_000_000, 50_000_000)
    )  # nor does it take the place of a warning
    assert (monitor.held.count, len(lines(caplog))) == (2, 1)
    caplog.set_level(logging.DEBUG, "barnabas.loop")
    monitor.on_long_turn(LongTurn(500_000_000, 0))
    assert "cpu_ms=0" in lines(caplog)[-1]


@pytest.mark.parametrize(
    ("turn", "is_warned"),
    [
        (LongTurn(500_000_000, 1_000_000, 10_000_000), True),
        (LongTurn(500_000_000, 1_000_000, 490_000_000), False),
        # Another thread has the GIL: it had no core itself, or it had.
        (LongTurn(500_000_000, 1_000_000, 10_000_000, 450_000_000), False),
        (LongTurn(500_000_000, 1_000_000, 10_000_000, 20_000_000), True),
        # Nothing is known about it.
        (LongTurn(500_000_000, 1_000_000), False),
    ],
)
def test_a_turn_that_was_blocked_is_a_warning_unless_the_machine_was_busy(
    caplog: pytest.LogCaptureFixture, turn: LongTurn, is_warned: bool
) -> None:
    LoopMonitor().on_long_turn(turn)
    assert len(lines(caplog)) == is_warned
    if is_warned:
        assert "cpu_ms=1 blocked_ms=489" in lines(caplog)[0]


def test_the_run_delay_is_that_of_the_thread_and_of_all_together(tmp_path: Path) -> None:
    for thread, line in (("thread-self", "7 30 1"), ("self/task/1", "7 30 1")):
        (tmp_path / thread).mkdir(parents=True)
        (tmp_path / thread / "schedstat").write_text(line + "\n")
    (tmp_path / "self/task/2").mkdir()  # it ends while we look
    delay = RunDelay(tmp_path)
    assert (delay.own_ns(), delay.all_ns()) == (30, 30)
    (tmp_path / "thread-self" / "schedstat").write_text("0 0 0\n")
    assert delay.own_ns() is None, "this system counts nothing"
    delay.close()
    assert delay.own_ns() is None
    absent = RunDelay(tmp_path / "absent")
    assert (absent.own_ns(), absent.all_ns()) == (None, 0)


def test_the_function_is_unknown_while_no_file_can_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def looked() -> Running:
        return running_on(asyncio.get_running_loop(), threading.get_ident())

    assert on_uvloop(looked()).function != "-"

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(loop_monitor, "_memory_file", refuse)
    assert on_uvloop(looked()).function == "-"


def test_a_request_that_holds_the_loop_is_named_by_its_function(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Any = Dispatch._message

    def slow(*arguments: object) -> object:
        hold_the_loop(0.5)
        return original(*arguments)

    monkeypatch.setattr(Dispatch, "_message", slow)

    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        caplog.clear()
        await client.ask(api_versions())
        await until(lambda: lines(caplog))
        assert "in=server/requests/dispatch.py:" in lines(caplog)[0]

    with_broker(tmp_path, scenario)
