"""Points in a step at which a test ends the process, as a power failure would."""

import os
import signal
from typing import Final

ENVIRONMENT: Final = "BARNABAS_TABLE_KILL_AT"
POINTS: Final = (
    "before-write",
    "written",
    "placed",
    "dead-letters",
    "before-commit",
    "committed",
    "before-upkeep",
)


def reached(point: str) -> None:
    """End this process with SIGKILL if the environment names the point."""
    if os.environ.get(ENVIRONMENT) == point:
        stop()


def stop() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
