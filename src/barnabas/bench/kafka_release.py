"""Apache Kafka itself, to compare with: fetched once by Maven, run with the Java of this machine.

All of it is optional: where Maven, Java or the network is missing, `find_kafka` says why. What
was fetched stays in the user's cache folder.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

VERSION: Final = "3.9.1"
FETCHED_WITHIN_S: Final = 100.0
_MIN_JAVA: Final = 17

# slf4j-reload4j lets Kafka log, so that one can see what it thinks of the files it is given. What
# the operators' tools need comes with the broker, save Kafka Connect, which is not used.
_ARTIFACTS: Final = (
    ("org.apache.kafka", "kafka_2.13", VERSION, ""),
    (
        "org.apache.kafka", "kafka-tools", VERSION,
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>",
    ),
    ("org.slf4j", "slf4j-reload4j", "1.7.36", ""),
)  # fmt: skip
_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>barnabas</groupId> <artifactId>apache-kafka</artifactId> <version>1</version>
  <packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""
_LOGGING: Final = """log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.ConsoleAppender
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%p %m (%c)%n
log4j.logger.org.apache.zookeeper=WARN
"""
# For what is short-lived and small.
QUICK_TO_START: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# As Kafka's own start script has them.
AS_SHIPPED: Final = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
# The child dies with whoever started it, even when that is killed and cleans up nothing.
_LAUNCH: Final = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Unavailable(Exception):
    """Apache Kafka cannot be had here; the message says why."""


@cache
def find_kafka() -> "ApacheKafka | Unavailable":
    """The release, or why there is none; asks the network once per run at most."""
    try:
        return ApacheKafka(_java(), _libraries())
    except Unavailable as reason:
        return reason


class ApacheKafka:
    """The classes of one release, ready to run."""

    def __init__(self, java: str, libraries: Path) -> None:
        self.java = java
        self.libraries = libraries

    def command(
        self, class_name: str, *arguments: object, options: Sequence[str] = QUICK_TO_START
    ) -> list[str]:
        """What runs a class of it, as a process that ends when whoever started it ends."""
        logging = self.libraries / "log4j.properties"
        return [
            sys.executable, "-c", _LAUNCH, self.java, *options,
            f"-Dlog4j.configuration=file:{logging}", "-Dzookeeper.admin.enableServer=false",
            "-cp", f"{self.libraries}/*", class_name, *map(str, arguments),
        ]  # fmt: skip


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    if java is None:
        raise Unavailable("there is no java")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < _MIN_JAVA:
        raise Unavailable(f"java is older than {_MIN_JAVA}")
    return java


def _libraries() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "barnabas" / f"kafka-{VERSION}-and-tools"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as work:
            _fetch(Path(work))
            try:
                os.rename(f"{work}/libraries", folder)
            except OSError:
                if not folder.exists():  # else someone else was faster
                    raise
    return folder


def _fetch(work: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("there is no Maven to fetch it with")
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{exclusions}</dependency>"
        for group, name, version, exclusions in _ARTIFACTS
    )
    (work / "pom.xml").write_text(_POM.format(dependencies))
    libraries = work / "libraries"
    options = ("-q", "-B", "-DincludeScope=runtime", f"-DoutputDirectory={libraries}")
    try:
        ended = subprocess.run(
            [maven, "dependency:copy-dependencies", *options],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=FETCHED_WITHIN_S,
            text=True,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"Maven did not fetch it within {FETCHED_WITHIN_S:.0f} s") from None
    if ended.returncode != 0 or not libraries.exists():
        lines = [line for line in ended.stdout.splitlines() if "ERROR" in line] or ["nothing said"]
        raise Unavailable(f"Maven could not fetch it: {lines[0][:200]}")
    (libraries / "log4j.properties").write_text(_LOGGING)
