"""The trace of a run: its events as lines, and a digest to compare runs."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from barnabas.base.errors import BarnabasError
from barnabas.sim.world.sim_loop import HOST

LOGGER: Final = "barnabas"


@dataclass(frozen=True, slots=True)
class TraceLine:
    """One event: time, host or component, text. Minor ones are printed with --verbose only."""

    at: float
    who: str
    what: str
    is_minor: bool = False

    def __str__(self) -> str:
        return f"{self.at:10.3f}  {self.who:<10}  {self.what}"


class Trace:
    """The events of a run so far. The digest covers every line and every byte received."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._digest = hashlib.blake2b(digest_size=16)
        self.lines: list[TraceLine] = []

    def add(self, who: str, what: str, *, is_minor: bool = False) -> None:
        line = TraceLine(self._now() - self._began, who, what, is_minor)
        self.lines.append(line)
        self._digest.update(str(line).encode())

    def arrived(self, source: str, target: str, data: bytes) -> None:
        """Add bytes received by a host to the digest only."""
        self._digest.update(b"%.9f %s %s " % (self._now(), source.encode(), target.encode()))
        self._digest.update(data)

    def add_to_digest(self, text: str) -> None:
        """Add a text to the digest only."""
        self._digest.update(text.encode())

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


class TraceHandler(logging.Handler):
    """Adds the brokers' log to the trace; logged exceptions that are bugs go to `on_bug`."""

    def __init__(self, trace: Trace, on_bug: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._trace = trace
        self._on_bug = on_bug

    def emit(self, record: logging.LogRecord) -> None:
        who = str(HOST.get() or "simulation")
        text = f"{record.name.removeprefix(LOGGER + '.')}: {record.getMessage()}"
        self._trace.add(who, text, is_minor=record.levelno < logging.WARNING)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, BarnabasError):
            self._on_bug(f"{who}: {text}: {error!r}")

    def __enter__(self) -> None:
        logger = logging.getLogger(LOGGER)
        self._before = logger.level, logger.propagate
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger(LOGGER)
        logger.removeHandler(self)
        level, logger.propagate = self._before
        logger.setLevel(level)  # the method also clears the loggers' cached levels
