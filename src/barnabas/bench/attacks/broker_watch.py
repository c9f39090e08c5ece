"""The memory, descriptors and threads of a broker process, from /proc, sampled by a thread."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.bench.compare.compare_sites import BrokerProcess

LOOKS_EVERY_S: Final = 0.02


def anonymous_bytes(pid: int) -> int:
    """The resident memory of a process without mapped files, which are the page cache's.

    Returns 0 if the process does not run. Needs /proc, as the other functions do.
    """
    return 1024 * _status(pid, "RssAnon")


def threads(pid: int) -> int:
    return _status(pid, "Threads")


def descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def _status(pid: int, field_name: str) -> int:
    try:
        _, _, rest = Path(f"/proc/{pid}/status").read_text().partition(f"\n{field_name}:")
    except OSError:
        return 0
    return int(rest.split()[0]) if rest else 0  # a zombie has no memory


@dataclass(slots=True)
class MemoryWatch:
    """The memory of one broker, now and at its most."""

    broker: BrokerProcess
    most: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def now(self) -> int:
        return anonymous_bytes(self.broker.pid)

    def run(self) -> None:
        while not self._over.wait(LOOKS_EVERY_S):
            self.most = max(self.most, self.now)

    def end(self) -> None:
        self._over.set()


@contextmanager
def watching_memory(broker: BrokerProcess) -> Iterator[MemoryWatch]:
    watch = MemoryWatch(broker)
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        yield watch
    finally:
        watch.end()
        thread.join()
