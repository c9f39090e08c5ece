"""The garbage collector of a broker: a full collection does not scan again what survived one.

The state of a broker grows with its partitions and lives as long as they do. To scan the objects of
very many of them holds the loop for a tenth of a second and more, each time, and finds nothing.
"""

import gc
import time
from collections.abc import Callable, Mapping
from typing import Final

# A full collection this long is the last one to scan what it has scanned.
FREEZE_AFTER_S: Final = 0.02
_OLDEST: Final = 2


class FreezeSurvivors:
    """Freezes the survivors of each full collection that takes long.

    A frozen object is still freed with the last reference to it. The price: cycles of objects that
    all were alive at that moment are never freed, be they garbage later.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = time.perf_counter,
        freeze: Callable[[], None] = gc.freeze,
    ) -> None:
        self._now_s = now_s
        self._freeze = freeze
        self._started_s = 0.0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """An entry of `gc.callbacks`: a collection starts or has stopped."""
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            self._started_s = self._now_s()
        elif self._now_s() - self._started_s >= FREEZE_AFTER_S:
            self._freeze()


def collect_from_now_on() -> None:
    """Start the garbage collector, and keep it from scanning what exists: that lives forever."""
    gc.freeze()
    gc.enable()
    if not any(isinstance(each, FreezeSurvivors) for each in gc.callbacks):
        gc.callbacks.append(FreezeSurvivors())
