"""The JVM's class data sharing archive: Spark's classes, parsed and verified once for all starts.

Most of the time in which Spark starts goes to its classes. The first session on a machine writes
them to an archive when its JVM exits; the JVMs of later sessions map that file into memory. If the
JVM is too slow to write it, as on a busy machine, no session tries again for a day.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from barnabas.base.clock import Clock, SystemClock

# A JVM that does not know the options ignores them. One whose version or class path differs from
# the archive's loads classes itself; -Xlog:disable keeps it from printing that to stdout.
WRITES_ARCHIVE: Final = "-XX:ArchiveClassesAtExit"
_RETRIED_AFTER_S: Final = 24 * 3_600
_ALWAYS: Final = "-XX:+IgnoreUnrecognizedVMOptions -Xshare:auto -Xlog:disable"


@contextmanager
def class_archive(clock: Clock | None = None) -> Iterator[str]:
    """Yield the options of a JVM that ends in the block; keep the archive that it wrote, if any."""
    archive = archive_path()
    now_s = (clock or SystemClock()).now_ms() / 1000
    if archive is None:
        yield ""
    elif archive.exists():
        yield f"{_ALWAYS} -XX:SharedArchiveFile={archive}"
    elif now_s - _written_at_s(archive.with_suffix(".failed")) < _RETRIED_AFTER_S:
        yield ""
    else:
        with TemporaryDirectory(dir=archive.parent, prefix="building-") as directory:
            written = Path(directory) / archive.name
            yield f"{_ALWAYS} {WRITES_ARCHIVE}={written}"
            try:
                os.replace(written, archive)
            except FileNotFoundError:
                archive.with_suffix(".failed").touch()


def _written_at_s(file: Path) -> float:
    with suppress(FileNotFoundError):
        return file.stat().st_mtime
    return 0.0


def archive_path() -> Path | None:
    """The archive of this Spark and this Java; None if there is no place for it."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas"
    if java is None or any(mark in str(cache) for mark in " \"'\\") or not _is_writable(cache):
        return None
    found = Path(java).resolve()
    origin = f"{found} {found.stat().st_mtime_ns} {_spark_home()}"
    name = f"spark-{version('pyspark')}-{sha256(origin.encode()).hexdigest()[:12]}.jsa"
    return cache / name


def _spark_home() -> str:
    import pyspark

    return os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)


def _is_writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK)
