"""Points in a step at which a test ends the process, as a power failure would."""

import os
import signal
from collections import Counter
from typing import Final

ENVIRONMENT: Final = "BARNABAS_TABLE_KILL_AT"
POINTS: Final = (
    "before-write",
    "written",
    "placed",
    "dead-letters",
    "before-commit",
    "columns-added",  # Delta: new columns are a commit before the one with their rows
    "half-committed",  # Iceberg: without the hint; Parquet: beside the files that it replaces
    "committed",
    "before-upkeep",
    "expiring",  # snapshots are forgotten, their files are not deleted yet
)
_seen: Final[Counter[str]] = Counter()


def reached(point: str) -> None:
    """End this process with SIGKILL if the environment names the point.

    `placed:2` is the second time that the process reaches `placed`.
    """
    wanted, _, number = os.environ.get(ENVIRONMENT, "").partition(":")
    if wanted == point:
        _seen[point] += 1
        if _seen[point] == int(number or 1):
            stop()


def stop() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
