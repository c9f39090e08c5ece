"""`barnabas configs`: describe and alter the configs of topics and brokers."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    Properties,
    check_topics,
    parse_pairs,
)
from barnabas.cli.show import show_rows
from barnabas.cli.subcommands import command_group

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._config import ConfigEntry
    from confluent_kafka.admin._metadata import ClusterMetadata
    from confluent_kafka.admin._resource import ResourceType

app = command_group(
    """Describe and alter the configs of topics and brokers.

    \b
    Examples:
      barnabas configs describe --topic orders --all
      barnabas configs alter --topic orders --set retention.ms=86400000
      barnabas configs describe --broker 0
    """
)

Topic = Annotated[
    str | None, typer.Option("--topic", "-t", help="Topic name.", callback=check_topics)
]
Broker = Annotated[int | None, typer.Option("--broker", metavar="ID", help="Broker id.")]


@app.command()
def describe(
    topic: Topic = None,
    broker: Broker = None,
    show_all: Annotated[
        bool, typer.Option("--all", "-a", help="Include configs at their default value.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Show the configs that are set and where they are set; --all adds the defaults.

    \b
    Examples:
      barnabas configs describe --topic orders
      barnabas configs describe --broker 0 --all --json
    """
    from barnabas.cli.client import ClusterClients, admin, await_all

    _choose_one(topic, broker)
    client, metadata = ClusterClients(bootstrap, properties).admin()
    kind, name = _find(metadata, topic, broker)
    (entries,) = await_all(client.describe_configs([admin.ConfigResource(kind, name)]))
    rows = [
        {
            "name": entry.name,
            "value": entry.value if json or not entry.is_sensitive else "(hidden)",
            "source": _source(entry),
            "read_only": entry.is_read_only,
            "sensitive": entry.is_sensitive,
        }
        for _, entry in sorted(entries.items())
        if show_all or _source(entry) != "default"
    ]
    none = "all configs are at their defaults; use --all to show them"
    show_rows(rows, ("name", "value", "source"), json=json, none=none)


def _source(entry: "ConfigEntry") -> str:
    """Kafka's config source in lower case, without `config`: `dynamic topic`, `default`."""
    from barnabas.cli.client import admin

    name: str = admin.ConfigSource(entry.source).name
    return name.removesuffix("_CONFIG").lower().replace("_", " ")


@app.command()
def alter(
    topic: Topic = None,
    broker: Broker = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Config to set; repeatable."),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", "-d", metavar="KEY", help="Config to reset; repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Set configs, or reset them to their defaults. Other configs stay unchanged.

    \b
    Examples:
      barnabas configs alter --topic orders --set retention.ms=86400000 --delete segment.ms
      barnabas configs alter --broker 0 --set log.cleaner.threads=2
    """
    from barnabas.cli.client import ClusterClients

    to_set = parse_pairs(settings, "--set")
    _choose_one(topic, broker)
    if not to_set and not delete:
        raise Misused("nothing to alter: specify --set KEY=VALUE or --delete KEY")
    client, metadata = ClusterClients(bootstrap, properties).admin()
    kind, name = _find(metadata, topic, broker)
    alter_configs(client, kind, name, to_set, delete or [])
    print(f"altered {kind.name.lower()} {name}")


def alter_configs(
    client: "AdminClient",
    kind: "ResourceType",
    name: str,
    to_set: Mapping[str, str],
    to_delete: Iterable[str],
) -> None:
    """Alter configs of one topic or broker: all of them, or none if the broker rejects any."""
    from barnabas.cli.client import admin, await_one

    changes = [
        admin.ConfigEntry(key, value, incremental_operation=admin.AlterConfigOpType.SET)
        for key, value in to_set.items()
    ] + [
        admin.ConfigEntry(key, None, incremental_operation=admin.AlterConfigOpType.DELETE)
        for key in to_delete
    ]
    resource = admin.ConfigResource(kind, name, incremental_configs=changes)
    (future,) = client.incremental_alter_configs([resource]).values()
    await_one(future, f"{kind.name.lower()} {name}")


def _choose_one(topic: str | None, broker: int | None) -> None:
    if (topic is None) == (broker is None):
        raise Misused("specify either --topic NAME or --broker ID")


def _find(
    metadata: "ClusterMetadata", topic: str | None, broker: int | None
) -> tuple["ResourceType", str]:
    from barnabas.cli.client import admin, find_topic

    if topic is not None:
        find_topic(metadata, topic)
        return admin.ResourceType.TOPIC, topic
    if broker not in metadata.brokers:
        known = ", ".join(map(str, sorted(metadata.brokers)))
        raise CommandFailed(f"unknown broker {broker}; live brokers: {known}")
    return admin.ResourceType.BROKER, str(broker)
