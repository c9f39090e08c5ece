"""Records a second of pipelines that advance in steps: archives and mirrors, over a minute."""

from collections import deque
from typing import Final

_SPAN_MS: Final = 60_000
_SHORTEST_MS: Final = 5_000
_MOST: Final = 1_000


class ProgressRates:
    """Positions of pipelines by name, of the last minute in which somebody looked."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[int, int]]] = {}

    def observe(self, name: str, at_ms: int, position: int) -> float | None:
        """The rate after a look at this position; None until two looks are far enough apart."""
        samples = self._seen.pop(name, None) or deque()
        if samples and (position < samples[-1][1] or at_ms - samples[-1][0] > _SPAN_MS):
            samples.clear()
        samples.append((at_ms, position))
        while at_ms - samples[0][0] > _SPAN_MS:
            samples.popleft()
        self._seen[name] = samples
        if len(self._seen) > _MOST:
            self._seen.pop(next(iter(self._seen)))
        passed_ms = at_ms - samples[0][0]
        if passed_ms < _SHORTEST_MS:
            return None
        return (position - samples[0][1]) / passed_ms * 1000
