"""When the machine itself stood still, as a virtual one does while its host runs something else.

A process of real-time priority on each processor wakes up every half a millisecond. Where it is
late nothing else ran on that processor either, and what a broker was asked for meanwhile tells of
the machine, not of the broker.
"""

import os
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from barnabas.bench.standstill_watch import READY, STANDSTILL

_WATCH: Final = Path(__file__).with_name("standstill_watch.py")
_READY_WITHIN_S: Final = 10.0
_LOOKS_EVERY_S: Final = 0.005

Span = tuple[float, float]


class Standstills:
    """Spans of time, of the clock of time.perf_counter; empty where nobody may watch."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._begins: list[float] = []
        self._ends: list[float] = []
        for begin, end in sorted(spans):  # those of several processors become one
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(begin)
                self._ends.append(end)

    def __len__(self) -> int:
        return len(self._begins)

    def touch(self, begin: float, end: float) -> bool:
        """Whether the machine stood still at any moment in between."""
        last = bisect_right(self._begins, end) - 1
        return last >= 0 and self._ends[last] >= begin


class Watch:
    """Sees standstills until it is ended; `processes` are none where that is not permitted."""

    def __init__(self, processes: Sequence["subprocess.Popen[bytes]"], told: list[IO[bytes]]):
        self.processes = processes
        self._told = told

    def end(self) -> Standstills:
        """What was seen; nothing is left running."""
        for process in self.processes:
            process.kill()
            process.wait()
        return Standstills(span for file in self._told for span in _read(file))


@contextmanager
def watching() -> Iterator[Watch]:
    """Watches every processor that we may run on. Nothing is left running after the block."""
    with ExitStack() as stack:
        processes, told = list[subprocess.Popen[bytes]](), list[IO[bytes]]()
        for processor in _processors():
            file = stack.enter_context(TemporaryFile())
            command = [sys.executable, "-IS", str(_WATCH), str(processor), str(os.getpid())]
            process = subprocess.Popen(command, stdout=file)
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
            told.append(file)
        if all(_is_ready(*each) for each in zip(processes, told, strict=True)):
            yield Watch(processes, told)
        else:
            yield Watch((), [])


def are_told() -> bool:
    """Whether we may have real-time priority here: without it nobody sees a standstill."""
    with watching() as watch:
        return bool(watch.processes)


def _processors() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []


def _is_ready(process: "subprocess.Popen[bytes]", file: IO[bytes]) -> bool:
    deadline = time.perf_counter() + _READY_WITHIN_S
    while not os.fstat(file.fileno()).st_size:
        if process.poll() is not None or time.perf_counter() > deadline:
            return False
        time.sleep(_LOOKS_EVERY_S)
    return True


def _read(file: IO[bytes]) -> Iterator[Span]:
    file.seek(len(READY))
    data = file.read()
    whole = len(data) - len(data) % STANDSTILL.size
    yield from STANDSTILL.iter_unpack(data[:whole])
