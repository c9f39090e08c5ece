"""Spark's own Kafka connector, to compare with: fetched once by Maven, kept in the user's cache."""

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.bench.compare.maven import Artifact, Unavailable, fetched

# Connector and token provider: what belongs to our Spark, then what runs on it too, since not every
# mirror of Maven Central has all of them.
_RELEASES: Final = (("4.3.0", "4.3.0"), ("4.2.0", "4.2.0"), ("4.2.0", "4.0.0"))


class NoConnector(Exception):
    """The connector cannot be had here; the message says why."""


class Connector(NamedTuple):
    """A release of the connector, with all that it needs beside Spark."""

    version: str
    jars: tuple[Path, ...]


@cache
def connector() -> Connector:
    """Raises NoConnector. Asks the network only for what was never fetched before."""
    reasons = []
    for version, tokens in _RELEASES:
        try:
            folder = fetched(f"spark-sql-kafka-{version}-{tokens}", _artifacts(version, tokens))
            return Connector(version, tuple(sorted(folder.glob("*.jar"))))
        except Unavailable as reason:
            reasons.append(str(reason))
    raise NoConnector(reasons[0])


def _artifacts(version: str, tokens: str) -> tuple[Artifact, ...]:
    # Named one by one: everything else is in PySpark's own jars, and what the connector's
    # description says of repositories need not be reachable.
    return (
        Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", version, alone=True),
        Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", tokens, alone=True),
        Artifact("org.apache.kafka", "kafka-clients", "3.9.2", alone=True),
        Artifact("org.apache.commons", "commons-pool2", "2.13.1", alone=True),
    )
