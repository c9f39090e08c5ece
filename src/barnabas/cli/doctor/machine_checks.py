"""Checks of this machine: Java, limits, ports, and the log directory of a broker."""

import os
import re
import resource
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from barnabas.cli.doctor.finding import Finding, problem, warning
from barnabas.cli.show import show_bytes
from barnabas.log.log_dir import META_PROPERTIES, META_VERSION

MIN_JAVA: Final = 17
# Each segment is three open files, each client one; a broker with 1,000 partitions needs these.
MIN_DESCRIPTORS: Final = 10_000
MIN_FREE_BYTES: Final = 1 << 30
MIN_FREE_PERCENT: Final = 5
_DEFAULT_PORT: Final = 9092
_JAVA_TIMEOUT_S: Final = 20


def check_java() -> Iterator[Finding]:
    """Spark and the ZooKeeper of `barnabas cluster` need Java; the broker does not."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    needs = f"install Java {MIN_JAVA} or newer, and set JAVA_HOME; a broker alone does not need it"
    if java is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH"
        yield warning("java", f"{where}: Spark and `barnabas cluster` do not start", needs)
        return
    version = _java_version(java)
    if version is None:
        yield warning("java", f"{java} does not run", needs)
    elif version < MIN_JAVA:
        yield warning("java", f"{java} is Java {version}: Spark does not start", needs)


def _java_version(java: str) -> int | None:
    try:
        ran = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(found[1]) if found and ran.returncode == 0 else None


def check_descriptors() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < MIN_DESCRIPTORS:
        is_hard = hard != resource.RLIM_INFINITY and hard < MIN_DESCRIPTORS
        how = "raise LimitNOFILE of the unit, or nofile in /etc/security/limits.conf"
        yield warning(
            "descriptors",
            f"a process may open {soft} files; a broker with many partitions and clients opens"
            " more, and fails",
            f"{how if is_hard else 'run `ulimit -n 100000` before the broker, or ' + how}",
        )


def check_default_port() -> Iterator[Finding]:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _DEFAULT_PORT))
        except OSError as error:
            yield warning(
                "port",
                f"port {_DEFAULT_PORT}, the default, is not free ({error.strerror})",
                f"if it is your cluster, add -b 127.0.0.1:{_DEFAULT_PORT}; otherwise start the"
                " broker with --listen HOST:PORT",
            )


def check_log_dir(folder: Path) -> Iterator[Finding]:
    """The log directory of a broker, running or not: present, writable, roomy, of this version."""
    if not folder.is_dir():
        yield problem("data", f"{folder} is not a directory", "correct --data")
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield problem(
            "data", f"{folder} cannot be read and written", "make the broker's user its owner"
        )
    yield from _check_space(folder)
    yield from _check_meta(folder / META_PROPERTIES)


def _check_space(folder: Path) -> Iterator[Finding]:
    usage = shutil.disk_usage(folder)
    finding = decide_space(f"{folder}", usage.total, usage.free)
    if finding is not None:
        yield finding


def decide_space(where: str, total: int, free: int) -> Finding | None:
    if free >= MIN_FREE_BYTES and free * 100 >= total * MIN_FREE_PERCENT:
        return None
    return problem(
        "disk",
        f"{where} has {show_bytes(free)} free of {show_bytes(total)}; a full disk takes the log"
        " directory offline",
        "lower retention.ms or retention.bytes, move replicas with `barnabas reassign`, or enlarge"
        " the disk",
    )


def _check_meta(file: Path) -> Iterator[Finding]:
    if not file.exists():
        yield warning(
            "data", f"there is no {file}: no broker has used the directory yet", "start one on it"
        )
        return
    found = re.search(r"^version=(.*)$", file.read_text("utf-8", "replace"), re.MULTILINE)
    version = found[1].strip() if found else None
    if version != str(META_VERSION):
        yield problem(
            "data",
            f"{file} has version={version}; this release knows {META_VERSION}",
            "use the release that wrote it, or a newer one",
        )
