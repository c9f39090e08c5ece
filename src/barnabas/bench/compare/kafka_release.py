"""An Apache Kafka release, fetched once by Maven and run with this machine's Java.

Optional: without Maven, Java or network, `find_kafka` returns the reason. The jars stay in the
user's cache directory.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from barnabas.bench.compare.maven import Artifact, Unavailable, fetched

__all__ = [
    "AS_SHIPPED",
    "ENDING_WITH_US",
    "QUICK_TO_START",
    "VERSION",
    "ApacheKafka",
    "Unavailable",
    "find_kafka",
]

VERSION: Final = "3.9.1"
_FOLDER: Final = f"kafka-{VERSION}-and-tools"
_MIN_JAVA: Final = 17

# slf4j-reload4j enables Kafka's log, which shows problems with its files. The tools' dependencies
# come with the broker, except Kafka Connect, which is not used.
_ARTIFACTS: Final = (
    Artifact("org.apache.kafka", "kafka_2.13", VERSION),
    Artifact("org.apache.kafka", "kafka-tools", VERSION, alone=True),
    Artifact("org.slf4j", "slf4j-reload4j", "1.7.36"),
)
_LOGGING: Final = """log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.ConsoleAppender
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%p %m (%c)%n
log4j.logger.org.apache.zookeeper=WARN
"""
# For small, short-lived programs.
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
# The child dies with its parent, even if that is killed.
_LAUNCH: Final = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
os.execvp(sys.argv[1], sys.argv[1:])
"""
ENDING_WITH_US: Final = (sys.executable, "-c", _LAUNCH)


@cache
def find_kafka() -> "ApacheKafka | Unavailable":
    """The release, or why it is unavailable; uses the network at most once per run."""
    try:
        return ApacheKafka(_java(), fetched(_FOLDER, _ARTIFACTS, {"log4j.properties": _LOGGING}))
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
        """The command that runs a class in a process that dies with its parent."""
        return [*ENDING_WITH_US, *self.java_command(class_name, *arguments, options=options)]

    def java_command(
        self, class_name: str, *arguments: object, options: Sequence[str] = QUICK_TO_START
    ) -> list[str]:
        """The command that runs a class."""
        logging = self.libraries / "log4j.properties"
        return [
            self.java, *options,
            f"-Dlog4j.configuration=file:{logging}", "-Dzookeeper.admin.enableServer=false",
            "-cp", f"{self.libraries}/*", class_name, *map(str, arguments),
        ]  # fmt: skip


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    if java is None:
        raise Unavailable("java not found")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < _MIN_JAVA:
        raise Unavailable(f"java is older than {_MIN_JAVA}")
    return java
