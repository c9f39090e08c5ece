"""The server.properties of each broker of a cluster on one machine, with a word on each choice."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.base.errors import ConfigError
from barnabas.cli.exit_codes import Misused
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.properties import format_properties

HOST: Final = "127.0.0.1"

# What every broker has for itself, and the option that decides it.
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
 Broker {broker_id} of a cluster on one machine. `barnabas cluster` writes this file at every
 start: what shall differ is given to it as --override key=value.
 To start this broker by hand: barnabas server --config {path}"""


class Choices(NamedTuple):
    """What all brokers of a cluster have in common."""

    brokers: int
    zookeeper: str
    overrides: Mapping[str, str]


def check_overrides(overrides: Mapping[str, str]) -> None:
    """Refuse (Misused) what no broker can have, or what each has for itself."""
    for key in overrides:
        if option := _OWN.get(key):
            raise Misused(f"--override {key}: each broker has its own; {option} decides it")
    try:
        BrokerConfig.from_properties({"broker.id": "0", **overrides})
    except ConfigError as error:
        raise Misused(f"--override {error}") from None


def broker_properties(
    choices: Choices, broker_id: int, port: int, data: Path, path: Path, metrics: str | None = None
) -> str:
    """The text of one broker's file; `path` is where it will lie."""
    own = {
        "broker.id": str(broker_id),
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(data),
        "zookeeper.connect": choices.zookeeper,
    }
    if metrics is not None:
        own["barnabas.metrics.listener"] = metrics
    sections = [(_HEADING.format(broker_id=broker_id, path=path), own)]
    sections += [
        (comment, {key: value for key, value in values.items() if key not in choices.overrides})
        for comment, values in _defaults(choices.brokers)
    ]
    sections.append((" Given as --override.", dict(choices.overrides)))
    return "\n".join(_format(values, comment) for comment, values in sections if values)


def _format(values: Mapping[str, str], comment: str) -> str:
    """Addresses as a person would write them: in a value these two need no backslash."""
    return format_properties(values, comment).replace("\\:", ":").replace("\\=", "=")


def _defaults(brokers: int) -> Iterable[tuple[str, dict[str, str]]]:
    copies = str(min(3, brokers))
    yield (
        " As many copies of everything as the brokers allow, and no more than three.",
        {"default.replication.factor": copies, "offsets.topic.replication.factor": copies},
    )
    in_sync = "2" if brokers >= 3 else "1"
    yield (
        " acks=all is answered once so many replicas have the record"
        + (": any one broker may die." if brokers >= 3 else "."),
        {"min.insync.replicas": in_sync},
    )
    yield (
        " Kafka waits 18 seconds before it takes a silent broker for dead. On one machine no\n"
        " network lies between, and a killed broker's partitions get new leaders sooner.",
        {"zookeeper.session.timeout.ms": "6000"},
    )
    yield (
        " When the whole cluster stops, the last brokers have nobody to hand over to: ask again\n"
        " soon, not after 5 seconds.",
        {"controlled.shutdown.retry.backoff.ms": "500"},
    )
