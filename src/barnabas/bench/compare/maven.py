"""Artifacts from Maven Central, fetched once and kept in the user's cache directory."""

import shutil
import subprocess
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.bench.build_cache import kept

FETCHED_WITHIN_S: Final = 120.0
_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>barnabas</groupId> <artifactId>fetched</artifactId> <version>1</version>
  <packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY: Final = """<dependency>
  <groupId>{}</groupId> <artifactId>{}</artifactId> <version>{}</version>{}
</dependency>"""
_NOTHING_ELSE: Final = """
  <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"""


class Unavailable(Exception):
    """Something is unavailable on this machine; the message says why."""


class Artifact(NamedTuple):
    """One library with its dependencies, or `alone`."""

    group: str
    name: str
    version: str
    alone: bool = False


def fetched(
    name: str, artifacts: Sequence[Artifact], beside: Mapping[str, str] | None = None
) -> Path:
    """The directory with the jars, and with additional files of these names and contents.

    Uses the network only on the first call. Raises Unavailable, nothing kept.
    """

    def make(work: Path) -> Path:
        libraries = _fetch(work, artifacts)
        for file, content in (beside or {}).items():
            (libraries / file).write_text(content)
        return libraries

    return kept(name, make)


def _fetch(work: Path, artifacts: Sequence[Artifact]) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven not found")
    wanted = "".join(
        _DEPENDENCY.format(group, name, version, _NOTHING_ELSE if alone else "")
        for group, name, version, alone in artifacts
    )
    (work / "pom.xml").write_text(_POM.format(wanted))
    libraries = work / "libraries"
    quietly = ("-q", "-B", "-Dstyle.color=never")
    options = ("-DincludeScope=runtime", f"-DoutputDirectory={libraries}")
    try:
        ended = subprocess.run(
            [maven, *quietly, "dependency:copy-dependencies", *options],
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
        lines = [line for line in ended.stdout.splitlines() if "ERROR" in line]
        said = lines[0].partition("ERROR] ")[2] if lines else "no reason given"
        raise Unavailable(f"Maven could not fetch it: {textwrap.shorten(said, 120)}")
    return libraries
