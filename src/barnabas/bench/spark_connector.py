"""Spark's own Kafka connector, to compare with: fetched once by Maven, kept in the user's cache."""

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

# Connector and token provider: what belongs to our Spark, then what runs on it too, since not every
# mirror of Maven Central has all of them.
_RELEASES: Final = (("4.3.0", "4.3.0"), ("4.2.0", "4.2.0"), ("4.2.0", "4.0.0"))
_FETCHED_WITHIN_S: Final = 120.0
# Named one by one: everything else is in PySpark's own jars, and what the connector's description
# says of repositories need not be reachable.
_ARTIFACTS: Final = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "{connector}"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "{tokens}"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
_DEPENDENCY: Final = """<dependency>
  <groupId>{}</groupId> <artifactId>{}</artifactId> <version>{}</version>
  <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
</dependency>"""
_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>barnabas</groupId> <artifactId>spark-connector</artifactId> <version>1</version>
  <packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""


class NoConnector(Exception):
    """The connector cannot be had here; the message says why."""


class Connector(NamedTuple):
    """A release of the connector, with all that it needs beside Spark."""

    version: str
    jars: tuple[Path, ...]


@cache
def connector() -> Connector:
    """Raises NoConnector. Asks the network only for what was never fetched before."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas"
    reasons = []
    for version, tokens in _RELEASES:
        folder = base / f"spark-sql-kafka-{version}-{tokens}"
        try:
            if not folder.exists():
                _fetch_into(folder, version, tokens)
            return Connector(version, tuple(sorted(folder.glob("*.jar"))))
        except NoConnector as reason:
            reasons.append(str(reason))
    raise NoConnector(reasons[0])


def _fetch_into(folder: Path, version: str, tokens: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as work:
        _fetch(Path(work), version, tokens)
        try:
            os.rename(f"{work}/libraries", folder)
        except OSError:
            if not folder.exists():  # else someone else was faster
                raise


def _fetch(work: Path, version: str, tokens: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoConnector("there is no Maven to fetch it with")
    wanted = "".join(_DEPENDENCY.format(*artifact) for artifact in _ARTIFACTS)
    (work / "pom.xml").write_text(_POM.format(wanted.format(connector=version, tokens=tokens)))
    libraries = work / "libraries"
    options = ("-q", "-B", "-DincludeScope=runtime", f"-DoutputDirectory={libraries}")
    try:
        ended = subprocess.run(
            [maven, "dependency:copy-dependencies", *options],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_FETCHED_WITHIN_S,
            text=True,
        )
    except subprocess.TimeoutExpired:
        raise NoConnector(f"Maven did not fetch it within {_FETCHED_WITHIN_S:.0f} s") from None
    if ended.returncode != 0 or not libraries.exists():
        lines = [line for line in ended.stdout.splitlines() if "[ERROR]" in line]
        said = lines[0].rpartition(": ")[2] if lines else "it did not say why"
        raise NoConnector(f"Maven could not fetch it: {said[:200]}")
