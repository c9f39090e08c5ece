"""A wall clock that is wrong for one process of any language, by a library that is loaded first.

The library stands before libc: Java and C programs ask it for the time. Monotonic time stays.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest

_SOURCE: Final = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) { return atol(getenv("CLOCK_SHIFT_S")); }

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        now->tv_sec += shift();
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *stored)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (stored)
        *stored = exact.tv_sec;
    return exact.tv_sec;
}
"""


@contextmanager
def clock_of_new_processes(folder: Path, seconds: int) -> Iterator[None]:
    """Processes that start within the block, and those that they start, are off by so much.

    Skips the test without a C compiler, and where programs cannot be given a library.
    """
    compiler = shutil.which("cc")
    if compiler is None or os.uname().sysname != "Linux":
        pytest.skip("to set the clock of one process takes a C compiler, and Linux")
    library = folder / "shifted_clock.so"
    if not library.exists():
        source = folder / "shifted_clock.c"
        source.write_text(_SOURCE)
        build = (compiler, "-shared", "-fPIC", "-O1", "-o", library, source)
        subprocess.run(list(map(str, build)), check=True)
    with patch.dict(os.environ, LD_PRELOAD=str(library), CLOCK_SHIFT_S=str(seconds)):
        yield
