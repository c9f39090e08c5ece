"""The audit log: one JSON line for each change that a person made through the console."""

import json
import logging
from pathlib import Path
from typing import Final

from barnabas.base.clock import Clock
from barnabas.cli.show import show_time

AUDIT: Final = "barnabas.console.audit"
_LOG: Final = logging.getLogger(AUDIT)
_KEPT: Final = 500


class AuditLog:
    """Changes with person, time and outcome: in a file if there is one, and on the log."""

    def __init__(self, clock: Clock, path: Path | None) -> None:
        self._clock = clock
        self._path = path
        self.entries: list[dict[str, object]] = []

    def check(self) -> None:
        """Raises OSError if the file cannot be written: a change must not go unrecorded."""
        if self._path is not None:
            self._path.open("a", encoding="utf-8").close()

    def add(self, person: str, action: str, what: str, outcome: str) -> None:
        """Raises OSError if the file cannot be written"""
        at_ms = self._clock.now_ms()
        entry: dict[str, object] = {
            "time": show_time(at_ms),
            "at_ms": at_ms,
            "person": person,
            "action": action,
            "what": what,
            "outcome": outcome,
        }
        self.entries.append(entry)
        del self.entries[:-_KEPT]
        line = json.dumps(entry, ensure_ascii=False)
        _LOG.info("%s", line)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
