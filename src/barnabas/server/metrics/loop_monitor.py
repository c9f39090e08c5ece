"""The loop monitor: a metric and a log line for every turn of the event loop that takes too long.

Theory of operation. While the loop is in one turn it serves nobody else. A timer ticks on the loop;
a tick that is late by the length of a turn says that there was such a turn. A thread watches the
ticks: if one is overdue it looks which function runs on the loop. Requests pay nothing for it.
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

log = logging.getLogger("barnabas.loop")

TICK_SECONDS: Final = 0.025
LONG_TURN_NS: Final = 100_000_000
# A turn with less CPU time waited for a machine that was busy with something else.
_BUSY_NS: Final = LONG_TURN_NS // 2
# A tick so late is overdue: the thread looks what runs.
_OVERDUE_NS: Final = 40_000_000
# No more than one warning in this time; it counts those that are left out.
_LINE_EVERY_NS: Final = 1_000_000_000
_TICK_NS: Final = int(TICK_SECONDS * 1e9)
_FRAME: Final = re.compile(r'File "(.*)", line (\d+) in (.*)')


class Running(NamedTuple):
    """The code that ran on the loop when the thread looked."""

    task: str = "-"
    function: str = "-"


class LoopMonitor:
    """Watches one event loop, from `start` to `stop`; both are called on it."""

    def __init__(self, stopwatch: Stopwatch = machine_stopwatch) -> None:
        self.held = Times()  # turns that took too long
        self.longest_ns = 0
        self._stopwatch = stopwatch
        self._due_ns = 0
        self._cpu_ns = 0
        self._running: Running | None = None
        self._line_ns = -_LINE_EVERY_NS
        self._unlogged = 0
        self._tick: asyncio.TimerHandle | None = None
        self._stopped = threading.Event()

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._arm(loop)
        watching = (loop, threading.get_ident())
        threading.Thread(
            target=self._watch, args=watching, name="loop-monitor", daemon=True
        ).start()

    def stop(self) -> None:
        self._stopped.set()
        if self._tick is not None:
            self._tick.cancel()

    # -- on the loop -------------------------------------------------------------

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._cpu_ns = time.thread_time_ns()
        self._running = None
        self._due_ns = self._stopwatch() + _TICK_NS
        self._tick = loop.call_later(TICK_SECONDS, self._on_tick, loop)

    def _on_tick(self, loop: asyncio.AbstractEventLoop) -> None:
        # The turn began between two ticks: half of the time between them is the best guess.
        held_ns = self._stopwatch() - self._due_ns + _TICK_NS // 2
        if held_ns >= LONG_TURN_NS:
            self.on_long_turn(held_ns, time.thread_time_ns() - self._cpu_ns)
        self._arm(loop)

    def on_long_turn(self, held_ns: int, cpu_ns: int) -> None:
        """Count a turn of this length, and log it: a warning unless there was one just now."""
        self.held.add(held_ns)
        self.longest_ns = max(self.longest_ns, held_ns)
        if cpu_ns < _BUSY_NS:
            self._log(logging.DEBUG, held_ns, cpu_ns)
            return
        now_ns = self._stopwatch()
        if now_ns - self._line_ns < _LINE_EVERY_NS:
            self._unlogged += 1
            return
        self._log(logging.WARNING, held_ns, cpu_ns)
        self._line_ns, self._unlogged = now_ns, 0

    def _log(self, level: int, held_ns: int, cpu_ns: int) -> None:
        running = self._running or Running()
        log.log(
            level,
            "loop held ms=%d cpu_ms=%d task=%s in=%s unlogged=%d",
            held_ns // 1_000_000,
            cpu_ns // 1_000_000,
            running.task,
            running.function,
            self._unlogged,
        )

    # -- in the thread -----------------------------------------------------------

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        while not self._stopped.wait(_OVERDUE_NS / 1e9):
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
