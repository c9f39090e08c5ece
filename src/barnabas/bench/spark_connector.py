"""Spark's Kafka connector, fetched once by Maven and kept in the user's cache directory."""

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.bench.compare.maven import Artifact, Unavailable, fetched

# Connector and token provider: the release of our Spark first, then others that run on it, since
# not every mirror of Maven Central has all of them.
_RELEASES: Final = (("4.3.0", "4.3.0"), ("4.2.0", "4.2.0"), ("4.2.0", "4.0.0"))


class NoConnector(Exception):
    """The connector is unavailable; the message says why."""


class Connector(NamedTuple):
    """A release of the connector with its dependencies."""

    version: str
    jars: tuple[Path, ...]


@cache
def connector() -> Connector:
    """Fetch the connector, unless it is cached. Raises NoConnector."""
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
