"""A program for one processor: writes when it was woken late, though nothing may run before it.

It is started as a script, so that it loads next to nothing: `standstill_watch.py PROCESSOR PARENT`,
the latter the id of the process that starts it, with which it ends.
"""

import os
import struct
import sys
import time
from typing import Final

STANDSTILL: Final = struct.Struct("dd")  # from and until, of time.perf_counter
READY: Final = STANDSTILL.pack(0.0, 0.0)
PERIOD_S: Final = 0.0005
LATE_S: Final = 0.0005


def watch(processor: int, started_by: int) -> None:
    """Until whoever started it is gone. Raises PermissionError, AttributeError if it may not."""
    os.sched_setaffinity(0, {processor})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    os.write(1, READY)
    while os.getppid() == started_by:
        due = time.perf_counter() + PERIOD_S
        time.sleep(PERIOD_S)
        woke = time.perf_counter()
        if woke - due > LATE_S:
            os.write(1, STANDSTILL.pack(due, woke))


if __name__ == "__main__":
    try:
        watch(int(sys.argv[1]), int(sys.argv[2]))
    except (OSError, AttributeError):
        sys.exit(1)
