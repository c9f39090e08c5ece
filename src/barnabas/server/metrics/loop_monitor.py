"""The loop monitor: a metric and a log line for every turn of the event loop that takes too long.

Theory of operation. While the loop is in one turn it serves nobody else. A timer ticks on the loop;
a tick that is late by the length of a turn says that there was such a turn. A thread watches the
ticks: if one is overdue it looks which function runs on the loop. Requests pay nothing for it.

A turn is logged as a warning if it used CPU time or was blocked, by the disk or a page fault. If
the machine was only busy with something else, it had a run delay instead. While the loop waits for
the GIL it looks blocked, but then the thread that has the GIL had the run delay.
"""

import asyncio
import faulthandler
import logging
import os
import re
import tempfile
import threading
import time
from typing import IO, Final, NamedTuple

from barnabas.base.clock import Stopwatch, machine_stopwatch
from barnabas.server.metrics.request_statistics import Times
from barnabas.server.metrics.run_delay import RunDelay

log = logging.getLogger("barnabas.loop")

TICK_SECONDS: Final = 0.025
LONG_TURN_NS: Final = 100_000_000
# A turn with as much CPU time, or blocked for as long, was not just held up by a busy machine.
_BUSY_NS: Final = LONG_TURN_NS // 2
# A tick so late is overdue: the thread looks what runs.
_OVERDUE_NS: Final = 40_000_000
# No more than one warning in this time; it counts those that are left out.
_LINE_EVERY_NS: Final = 1_000_000_000
# The run delay of all threads is summed up so often: it takes a file of each.
_SUM_EVERY_NS: Final = 1_000_000_000
_TICK_NS: Final = int(TICK_SECONDS * 1e9)
_FRAME: Final = re.compile(r'File "(.*)", line (\d+) in (.*)')


class Running(NamedTuple):
    """The code that ran on the loop when the thread looked."""

    task: str = "-"
    function: str = "-"


class LongTurn(NamedTuple):
    """One long turn in nanoseconds, and what its time went to as far as the system counts it."""

    held_ns: int
    cpu_ns: int
    run_delay_ns: int | None = None  # of the loop's thread: ready to run, without a core
    others_delay_ns: int = 0  # of the other threads together, at least in this time

    @property
    def blocked_ns(self) -> int:
        """The time that is neither CPU time nor run delay: the disk, a page fault, or the GIL."""
        if self.run_delay_ns is None:
            return 0
        return max(0, self.held_ns - self.cpu_ns - self.run_delay_ns)

    @property
    def is_of_busy_machine(self) -> bool:
        """True if it says nothing about the broker."""
        if self.cpu_ns >= _BUSY_NS:
            return False
        blocked_ns = self.blocked_ns
        return blocked_ns < _BUSY_NS or self.others_delay_ns >= blocked_ns // 2


class LoopMonitor:
    """Watches one event loop, from `start` to `stop`; both are called on it."""

    def __init__(self, stopwatch: Stopwatch = machine_stopwatch) -> None:
        self.held = Times()  # turns that took too long
        self.longest_ns = 0
        self._stopwatch = stopwatch
        self._due_ns = 0
        self._cpu_ns = 0
        self._run_delay: RunDelay | None = None
        self._own_delay_ns: int | None = None
        self._all_delay_ns = 0
        self._running: Running | None = None
        self._line_ns = -_LINE_EVERY_NS
        self._unlogged = 0
        self._tick: asyncio.TimerHandle | None = None
        self._stopped = threading.Event()

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._run_delay = RunDelay()
        self._all_delay_ns = self._run_delay.all_ns()
        self._arm(loop)
        watching = (loop, threading.get_ident())
        threading.Thread(
            target=self._watch, args=watching, name="loop-monitor", daemon=True
        ).start()

    def stop(self) -> None:
        self._stopped.set()
        if self._tick is not None:
            self._tick.cancel()
        if self._run_delay is not None:
            self._run_delay.close()

    # -- on the loop -------------------------------------------------------------

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._cpu_ns = time.thread_time_ns()
        self._own_delay_ns = None if self._run_delay is None else self._run_delay.own_ns()
        self._running = None
        self._due_ns = self._stopwatch() + _TICK_NS
        self._tick = loop.call_later(TICK_SECONDS, self._on_tick, loop)

    def _on_tick(self, loop: asyncio.AbstractEventLoop) -> None:
        # The turn began between two ticks: half of the time between them is the best guess.
        held_ns = self._stopwatch() - self._due_ns + _TICK_NS // 2
        if held_ns >= LONG_TURN_NS:
            self.on_long_turn(self._long_turn(held_ns))
        self._arm(loop)

    def _long_turn(self, held_ns: int) -> LongTurn:
        cpu_ns = time.thread_time_ns() - self._cpu_ns
        own_ns = None if self._run_delay is None else self._run_delay.own_ns()
        if self._run_delay is None or own_ns is None or self._own_delay_ns is None:
            return LongTurn(held_ns, cpu_ns)
        delay_ns = own_ns - self._own_delay_ns
        all_ns = self._run_delay.all_ns()
        before_ns, self._all_delay_ns = self._all_delay_ns, all_ns
        return LongTurn(held_ns, cpu_ns, delay_ns, max(0, all_ns - before_ns - delay_ns))

    def on_long_turn(self, turn: LongTurn) -> None:
        """Count a turn, and log it: a warning unless there was one just now."""
        self.held.add(turn.held_ns)
        self.longest_ns = max(self.longest_ns, turn.held_ns)
        if turn.is_of_busy_machine:
            self._log(logging.DEBUG, turn)
            return
        now_ns = self._stopwatch()
        if now_ns - self._line_ns < _LINE_EVERY_NS:
            self._unlogged += 1
            return
        self._log(logging.WARNING, turn)
        self._line_ns, self._unlogged = now_ns, 0

    def _log(self, level: int, turn: LongTurn) -> None:
        running = self._running or Running()
        log.log(
            level,
            "loop held ms=%d cpu_ms=%d blocked_ms=%d task=%s in=%s unlogged=%d",
            turn.held_ns // 1_000_000,
            turn.cpu_ns // 1_000_000,
            turn.blocked_ns // 1_000_000,
            running.task,
            running.function,
            self._unlogged,
        )

    # -- in the thread -----------------------------------------------------------

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        summed_ns = self._stopwatch()
        while not self._stopped.wait(_OVERDUE_NS / 1e9):
            if self._run_delay is not None and self._stopwatch() - summed_ns > _SUM_EVERY_NS:
                self._all_delay_ns, summed_ns = self._run_delay.all_ns(), self._stopwatch()
            is_overdue = self._stopwatch() - self._due_ns > _OVERDUE_NS
            if is_overdue and self._running is None:
                self._running = running_on(loop, thread)


def running_on(loop: asyncio.AbstractEventLoop, thread: int) -> Running:
    """The code that the loop runs now: the task, and the innermost function of the broker."""
    return Running(_task(loop), _function(_stack(thread)))


def _stack(thread: int) -> list[tuple[str, str, str]]:
    """The files, lines and functions on a thread's stack, from the innermost on.

    faulthandler reads it in one step, with the interpreter's lock held, so no other thread runs
    meanwhile. To walk over the frame objects of a thread that goes on between two steps once ended
    the process: CPython 3.11 followed a frame that was gone. Returns nothing where no file can be
    opened.
    """
    try:
        with _memory_file() as file:
            faulthandler.dump_traceback(file)
            file.seek(0)
            threads = file.read().decode(errors="replace").split("\n\n")
    except OSError:
        return []
    wanted = f"hread 0x{thread:016x} "
    return [found for each in threads if wanted in each for found in _FRAME.findall(each)]


def _memory_file() -> IO[bytes]:
    """A file to write to while all threads wait: on Linux none that a disk could delay."""
    create = getattr(os, "memfd_create", None)
    return tempfile.TemporaryFile() if create is None else open(create("stacks"), "w+b")


def _function(stack: list[tuple[str, str, str]]) -> str:
    ours = [frame for frame in stack if _is_broker(frame[0])]
    for path, line, function in ours or stack:
        return f"{path.rpartition('/barnabas/')[2]}:{line} {function}"
    return "-"


def _is_broker(path: str) -> bool:
    """True if it is code that the loop calls, and not the command that runs the loop."""
    return "/barnabas/" in path and "/barnabas/cli/" not in path


def _task(loop: asyncio.AbstractEventLoop) -> str:
    task = asyncio.current_task(loop)
    coroutine = None if task is None else task.get_coro()
    return str(getattr(coroutine, "__qualname__", "-"))
