"""The temporary directory of a Spark session: its log, shuffle files and warehouse.

A session removes its directory when it ends. If Spark failed, its log stays for a week. The process
holds a lock on the directory, so the next session recognizes those of killed processes.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from barnabas.base.clock import Clock, SystemClock

LOG: Final = "spark.log"
_PREFIX: Final = "barnabas-spark-"
_LOG_KEPT_S: Final = 7 * 24 * 3_600
_NEW_S: Final = 60  # it may not be locked yet


@contextmanager
def session_directory() -> Iterator[Path]:
    """Yield a new directory; it is removed at the end with all that is in it."""
    remove_abandoned(Path(tempfile.gettempdir()))
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (directory / LOG).touch()
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def keep_log(directory: Path) -> Path | None:
    """Move the log out of a session's directory; return its new path, None if it is empty."""
    log, kept = directory / LOG, directory.with_suffix(".log")
    if not log.stat().st_size:
        return None
    os.replace(log, kept)
    return kept


def remove_abandoned(place: Path, clock: Clock | None = None) -> None:
    """Remove the directories of processes that were killed, and logs of more than a week ago."""
    now_s = (clock or SystemClock()).now_ms() / 1000
    for path in place.glob(f"{_PREFIX}*"):
        # Those of other users, and those that another process removes meanwhile.
        with suppress(OSError):
            found = path.lstat()
            if found.st_uid != os.getuid():
                continue
            age_s = now_s - found.st_mtime
            if path.suffix == ".log" and age_s > _LOG_KEPT_S:
                path.unlink()
            elif path.is_dir() and (age_s > _NEW_S or (path / LOG).exists()):
                _remove_unlocked(path)


def _remove_unlocked(directory: Path) -> None:
    lock = os.open(directory, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(lock)
