"""`barnabas topics`: create, list, describe, alter and delete topics."""

import sys
from typing import Annotated, Final

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    Properties,
    Yes,
    check_topics,
    confirm,
    parse_pairs,
)
from barnabas.cli.show import counted, show_json
from barnabas.cli.subcommands import command_group

app = command_group(
    """Create, list, describe, alter and delete topics.

    \b
    Examples:
      barnabas topics create orders --partitions 3
      barnabas topics describe orders
      barnabas topics alter orders --config retention.ms=86400000
      barnabas topics delete orders
    """
)

_MOST: Final = 100_000  # partitions in one request of the client

Name = Annotated[str, typer.Argument(metavar="NAME", help="Topic name.", callback=check_topics)]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="A topic config; repeatable."),
]


@app.command()
def create(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, max=_MOST, help="Default: broker.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", min=1, max=10_000, help="Default: broker."),
    ] = None,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic exists.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Create a topic.

    \b
    Examples:
      barnabas topics create orders --partitions 3
      barnabas topics create users --config cleanup.policy=compact --config segment.ms=60000
    """
    from barnabas.cli.client import ClusterClients, admin, create_topics

    topic_config = parse_pairs(config, "--config")
    client, metadata = ClusterClients(bootstrap, properties).admin()
    if name in metadata.topics:
        if if_not_exists:
            print(f"topic {name} already exists")
            return
        raise CommandFailed(f"topic {name} already exists; use --if-not-exists to ignore")
    # -1 leaves the choice to the broker's num.partitions and default.replication.factor.
    topic = admin.NewTopic(
        name,
        num_partitions=partitions or -1,
        replication_factor=replication_factor or -1,
        config=topic_config,
    )
    create_topics(client, [topic])
    print(f"created topic {name}")


@app.command("list")
def list_topics(
    show_all: Annotated[
        bool, typer.Option("--all", "-a", help="Include internal topics (__*).")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """List topics, one name per line.

    \b
    Examples:
      barnabas topics list
      barnabas topics list --json | jq -r '.[] | select(.partitions > 1) | .topic'
    """
    from barnabas.cli.client import ClusterClients

    _, metadata = ClusterClients(bootstrap, properties).admin()
    names = [name for name in sorted(metadata.topics) if show_all or not name.startswith("__")]
    if json:
        show_json([{"topic": n, "partitions": len(metadata.topics[n].partitions)} for n in names])
    else:
        for name in names:
            print(name)


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Topics; default: all.", callback=check_topics),
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", "-a", help="Include internal topics.")] = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with out-of-sync replicas.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Only partitions without a live leader.")
    ] = False,
    at_min_isr: Annotated[
        bool, typer.Option("--at-min-isr", help="Only partitions with exactly min.insync.replicas.")
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr", help="Only partitions that reject acks=all.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Show partitions with leaders, replicas, ISR and offsets, and the configs set.

    Several filters show the partitions that match any of them.

    \b
    Examples:
      barnabas topics describe orders
      barnabas topics describe --under-replicated --unavailable
      barnabas topics describe --json | jq '.[].partitions[].latest'
    """
    from barnabas.cli.client import ClusterClients, find_topic
    from barnabas.cli.topics.topic_descriptions import (
        describe_topics,
        keep_only,
        show_topic,
        without_healthy_states,
    )

    client, metadata = ClusterClients(bootstrap, properties).admin()
    for name in names or ():
        find_topic(metadata, name)
    chosen = names or [n for n in sorted(metadata.topics) if show_all or not n.startswith("__")]
    described = describe_topics(client, metadata, list(dict.fromkeys(chosen))) if chosen else []
    wanted = {
        "under-replicated": under_replicated,
        "unavailable": unavailable,
        "at min isr": at_min_isr,
        "under min isr": under_min_isr,
    }
    if hidden := [topic["topic"] for topic in described if topic["configs"] is None]:
        print(
            f"barnabas: configs of {', '.join(hidden)} not shown, nor states that depend on"
            " min.insync.replicas: the user needs DESCRIBE_CONFIGS on the topic",
            file=sys.stderr,
        )
    if any(wanted.values()):
        described = keep_only(described, [state for state in wanted if wanted[state]])
    if json:
        show_json([without_healthy_states(topic) for topic in described])
    else:
        for topic in described:
            show_topic(topic)


@app.command()
def alter(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, max=_MOST, help="New total; can only grow."),
    ] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", "-d", metavar="KEY", help="Reset to the default."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Add partitions or change configs.

    \b
    Examples:
      barnabas topics alter orders --partitions 6
      barnabas topics alter orders --config retention.ms=86400000 --delete-config segment.ms
    """
    from barnabas.cli.admin.configs_command import alter_configs
    from barnabas.cli.client import ClusterClients, admin, create_partitions, find_topic

    to_set = parse_pairs(config, "--config")
    if not (partitions or to_set or delete_config):
        raise Misused("nothing to alter: specify --partitions, --config or --delete-config")
    client, metadata = ClusterClients(bootstrap, properties).admin()
    existing = len(find_topic(metadata, name).partitions)
    if partitions is not None and partitions <= existing:
        raise CommandFailed(
            f"topic {name} has {counted(existing, 'partition')}; the number can only grow"
        )
    # Configs first: the broker may reject them, and then nothing has changed.
    if to_set or delete_config:
        alter_configs(client, admin.ResourceType.TOPIC, name, to_set, delete_config or [])
    if partitions is not None:
        create_partitions(client, name, partitions)
    print(f"altered topic {name}")


@app.command()
def delete(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Topic names.", callback=check_topics)
    ],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Delete topics and their data. Asks for confirmation on a terminal.

    \b
    Examples:
      barnabas topics delete orders
      barnabas topics delete orders users --yes
    """
    from barnabas.cli.client import ClusterClients, await_one, delete_topics, find_topic

    client, metadata = ClusterClients(bootstrap, properties).admin()
    for name in names:
        find_topic(metadata, name, "; nothing was deleted")
    if not yes:
        confirm(f"Delete {', '.join(names)} and all messages?", "nothing was deleted")
    for name, future in delete_topics(client, list(dict.fromkeys(names))).items():
        await_one(future, name)
        print(f"deleted topic {name}")
