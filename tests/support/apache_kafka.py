"""Apache Kafka's classes and tools for tests, which are skipped where they are not available."""

import subprocess
from typing import Final

import pytest

from barnabas.bench.compare import kafka_release
from barnabas.bench.compare.kafka_release import VERSION, Unavailable, find_kafka

__all__ = ["RUN_WITHIN_S", "VERSION", "ApacheKafka", "apache_kafka"]

RUN_WITHIN_S: Final = 180.0


def apache_kafka() -> "ApacheKafka":
    """Skip the test if it is not available; download it once per run at most."""
    found = find_kafka()
    if isinstance(found, Unavailable):
        pytest.skip(f"no Apache Kafka {VERSION} to compare with: {found}")
    return ApacheKafka(found.java, found.libraries)


class ApacheKafka(kafka_release.ApacheKafka):
    """The classes and tools of one release."""

    def run(self, class_name: str, *arguments: object, stdin: str = "") -> str:
        """The output of a tool, both streams. Raises AssertionError if it fails."""
        ended = subprocess.run(
            self.command(class_name, *arguments),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=RUN_WITHIN_S,
            text=True,
            errors="surrogateescape",
        )
        assert ended.returncode == 0, f"{class_name} ended with {ended.returncode}: {ended.stdout}"
        return ended.stdout
