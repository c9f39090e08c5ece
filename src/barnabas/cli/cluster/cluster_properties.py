"""The generated server.properties of each broker of a local cluster, with comments."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.base.errors import ConfigError
from barnabas.cli.exit_codes import Misused
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.properties import format_properties

HOST: Final = "127.0.0.1"

# Configs that differ per broker, and the option that sets them.
_OWN: Final[Mapping[str, str]] = {
    "broker.id": "--brokers",
    "node.id": "--brokers",
    "listeners": "--base-port",
    "advertised.listeners": "--base-port",
    "log.dirs": "--data",
    "log.dir": "--data",
    "zookeeper.connect": "--zookeeper",
    "barnabas.metrics.listener": "--base-port",
}
_HEADING: Final = """\
 Broker {broker_id} of a local cluster. `barnabas cluster` overwrites this file at every start;
 change configs with its option --override key=value.
 To start this broker by hand: barnabas server --config {path}"""


class ClusterSettings(NamedTuple):
    """Settings common to all brokers of a cluster."""

    brokers: int
    zookeeper: str
    overrides: Mapping[str, str]
    security: Mapping[str, str] = {}


def check_overrides(overrides: Mapping[str, str]) -> None:
    """Raises Misused for configs that are invalid, or that each broker sets for itself."""
    for key in overrides:
        if option := _OWN.get(key):
            raise Misused(f"--override {key}: differs per broker; use {option}")
    try:
        BrokerConfig.from_properties({"broker.id": "0", **overrides})
    except ConfigError as error:
        raise Misused(f"--override {error}") from None


def broker_properties(
    settings: ClusterSettings,
    broker_id: int,
    port: int,
    data: Path,
    path: Path,
    metrics: str | None = None,
) -> str:
    """The text of one broker's server.properties, which will be stored at `path`."""
    protocol = settings.security.get("security.inter.broker.protocol", "PLAINTEXT")
    own = {
        "broker.id": str(broker_id),
        "listeners": f"{protocol}://{HOST}:{port}",
        "log.dirs": str(data),
        "zookeeper.connect": settings.zookeeper,
    }
    if metrics is not None:
        own["barnabas.metrics.listener"] = metrics
    sections = [(_HEADING.format(broker_id=broker_id, path=path), own)]
    sections += [
        (comment, {key: value for key, value in values.items() if key not in settings.overrides})
        for comment, values in _defaults(settings.brokers)
    ]
    secured = {k: v for k, v in settings.security.items() if k not in settings.overrides}
    sections.append((" TLS and SASL; keep this file to yourself.", secured))
    sections.append((" Set with --override.", dict(settings.overrides)))
    return "\n".join(_format(values, comment) for comment, values in sections if values)


def _format(values: Mapping[str, str], comment: str) -> str:
    """Write `:` and `=` without a backslash, which values do not need."""
    return format_properties(values, comment).replace("\\:", ":").replace("\\=", "=")


def _defaults(brokers: int) -> Iterable[tuple[str, dict[str, str]]]:
    copies = str(min(3, brokers))
    yield (
        " As many replicas as there are brokers, three at most.",
        {"default.replication.factor": copies, "offsets.topic.replication.factor": copies},
    )
    in_sync = "2" if brokers >= 3 else "1"
    yield (
        " acks=all waits for this many in-sync replicas"
        + (": any one broker may fail." if brokers >= 3 else "."),
        {"min.insync.replicas": in_sync},
    )
    yield (
        " Kafka's default is 18 seconds. On one machine there is no network to wait for, and\n"
        " the partitions of a killed broker get new leaders sooner.",
        {"zookeeper.session.timeout.ms": "6000"},
    )
    yield (
        " When the whole cluster stops, the last brokers have no replica to hand leadership to:\n"
        " retry soon, not after 5 seconds.",
        {"controlled.shutdown.retry.backoff.ms": "500"},
    )
