"""CPU time of processes, and the longest period in which each kept a core busy."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from barnabas.bench.server_processes import HAS_PROC, cpu_seconds

EVERY_S: Final = 0.25  # 25 clock ticks: shorter samples would be too coarse
BUSY_SHARE: Final = 0.9


@dataclass(slots=True)
class Busy:
    """CPU seconds of one process, and its longest period above 90 % of a core, by samples."""

    cpu_s: float = 0.0
    longest_s: float = 0.0
    _stretch_s: float = 0.0

    def on_look(self, used_s: float, passed_s: float) -> None:
        """Add a sample: CPU seconds of the time since the last one."""
        self.cpu_s += used_s
        self._stretch_s = self._stretch_s + passed_s if used_s > BUSY_SHARE * passed_s else 0.0
        self.longest_s = max(self.longest_s, self._stretch_s)


@contextmanager
def watching(pids: Sequence[int]) -> Iterator[list[Busy]]:
    """Sample processes during the block; the result is empty without /proc."""
    found = [Busy() for _ in pids]
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(pids, found, over))
    if HAS_PROC:
        watcher.start()
    try:
        yield found
    finally:
        over.set()
        if HAS_PROC:
            watcher.join()


def _watch(pids: Sequence[int], found: Sequence[Busy], over: threading.Event) -> None:
    used, last = [0.0] * len(pids), time.perf_counter()
    is_over = False
    while not is_over:
        is_over = over.wait(EVERY_S)
        now = time.perf_counter()
        for number, pid in enumerate(pids):
            try:
                total = cpu_seconds(pid)
            except FileNotFoundError:  # it has ended
                continue
            found[number].on_look(total - used[number], now - last)
            used[number] = total
        last = now
