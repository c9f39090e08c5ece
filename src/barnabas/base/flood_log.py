"""The log lines that strangers cause: at most one per source and second, so that no attack fills
the disk or hides other lines.
"""

import logging
from typing import Final

log = logging.getLogger("barnabas.connection")

ONE_PER_S: Final = 1.0
# Sources that are remembered; beyond it those of before may cause another line.
MOST_SOURCES: Final = 10_000


class FloodLog:
    """Logs a line of a source, or counts it; the next line that is logged says how many were."""

    __slots__ = ("_sources",)

    def __init__(self) -> None:
        self._sources: dict[str, tuple[float, int]] = {}  # when the last was logged, and not logged

    def info(self, source: str, now: float, message: str, *facts: object) -> None:
        logged_at, skipped = self._sources.get(source, (-ONE_PER_S, 0))
        if now - logged_at < ONE_PER_S:
            self._sources[source] = (logged_at, skipped + 1)
            return
        if len(self._sources) >= MOST_SOURCES:
            self._sources.clear()
        self._sources[source] = (now, 0)
        if skipped:
            message, facts = f"{message} (and %d more like it)", (*facts, skipped)
        log.info(message, *facts)
