"""What happened in a run, line by line for people, and as one digest for whoever compares runs."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from barnabas.base.errors import BarnabasError
from barnabas.sim.world.sim_loop import HOST

LOGGER: Final = "barnabas"


@dataclass(frozen=True, slots=True)
class Line:
    """One event: when, on which host or in whose name, and what; minor ones only fill the gaps."""

    at: float
    who: str
    what: str
    is_minor: bool = False

    def __str__(self) -> str:
        return f"{self.at:10.3f}  {self.who:<10}  {self.what}"


class Story:
    """Grows while a run goes on. The digest covers every line, and every byte that arrived."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._digest = hashlib.blake2b(digest_size=16)
        self.lines: list[Line] = []

    def tell(self, who: str, what: str, *, is_minor: bool = False) -> None:
        line = Line(self._now() - self._began, who, what, is_minor)
        self.lines.append(line)
        self._digest.update(str(line).encode())

    def arrived(self, source: str, target: str, data: bytes) -> None:
        """Bytes reached a host: nothing to tell, but another run of the seed must see the same."""
        self._digest.update(b"%.9f %s %s " % (self._now(), source.encode(), target.encode()))
        self._digest.update(data)

    def note(self, text: str) -> None:
        """Let the digest depend on this, too."""
        self._digest.update(text.encode())

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


class Listener(logging.Handler):
    """Brings what brokers log into the story; what they did not expect is told to `on_bug`."""

    def __init__(self, story: Story, on_bug: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._story = story
        self._on_bug = on_bug

    def emit(self, record: logging.LogRecord) -> None:
        who = str(HOST.get() or "simulation")
        text = f"{record.name.removeprefix(LOGGER + '.')}: {record.getMessage()}"
        self._story.tell(who, text, is_minor=record.levelno < logging.WARNING)
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
        logger.setLevel(level)  # by a call: it also forgets what loggers remember of their levels
