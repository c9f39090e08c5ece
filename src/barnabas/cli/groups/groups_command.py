"""`barnabas groups`: list and describe consumer groups, reset their offsets, delete them."""

from typing import Annotated, Any

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.groups.groups_options import Groups, Topics, check_groups
from barnabas.cli.groups.groups_reset_command import reset_offsets
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Properties, Yes, confirm
from barnabas.cli.show import counted, show_json, show_rows
from barnabas.cli.subcommands import command_group

app = command_group(
    """List and describe consumer groups, reset their offsets, delete them.

    \b
    Examples:
      barnabas groups list
      barnabas groups describe billing --follow
      barnabas groups reset-offsets billing --topic orders --to-earliest
      barnabas groups delete billing
    """
)


def _wanted(texts: list[str] | None, possible: "tuple[str, ...]", option: str) -> list[str]:
    """The given words, repeated or comma-separated, in their canonical spelling."""
    proper = {word.lower(): word for word in possible}
    given = [word.strip() for text in texts or () for word in text.split(",")]
    for word in given:
        if word.lower() not in proper:
            raise Misused(f"{option} {word}: expected {', '.join(possible)}")
    return [proper[word.lower()] for word in given]


@app.command("list")
def list_groups(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE[,...]", help="Only groups in these states: Stable, Empty, ..."
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE[,...]", help="Only groups of these types: Classic, Consumer."
        ),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """List groups with their type and state.

    \b
    Examples:
      barnabas groups list
      barnabas groups list --state Stable,PreparingRebalance --type consumer
    """
    from barnabas.cli.client import ClusterClients, explain
    from barnabas.cli.groups.groups_admin import STATES, TYPES, UNKNOWN, GroupAdmin, state_of

    states = _wanted(state, tuple(STATES.values()), "--state")
    types = _wanted(kind, TYPES, "--type")
    listed, errors = GroupAdmin(ClusterClients(bootstrap, properties)).listed()
    unclear = [group.group_id for group in listed if state_of(group) == UNKNOWN]
    details = _details(bootstrap, unclear)
    rows = [
        {
            "group": group.group_id,
            "type": group.type.name.capitalize(),
            "state": details[name].group_state if name in details else state_of(group),
            "is_simple": group.is_simple_consumer_group,
        }
        for group in listed
        for name in [group.group_id]
    ]
    shown = [
        row
        for row in rows
        if (not states or row["state"] in states) and (not types or row["type"] in types)
    ]
    show_rows(shown, ("group", "type", "state"), json=json)
    if errors:
        first = explain(errors[0].args[0])
        raise CommandFailed(f"{counted(len(errors), 'broker')} failed to list groups: {first}")


def _details(bootstrap: str, names: list[str]) -> dict[str, Any]:
    """ConsumerGroupDescribe responses, by group."""
    if not names:
        return {}
    from barnabas.cli.groups.groups_requests import consumer_details

    return consumer_details(bootstrap, names)


@app.command()
def describe(
    groups: Groups,
    members: Annotated[
        bool, typer.Option("--members", help="Show members and their assignments.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Refresh until Ctrl-C.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, max=3600, help="Seconds between refreshes.")
    ] = 1.0,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Show committed offsets, lag and the consumer of each partition.

    \b
    Examples:
      barnabas groups describe billing
      barnabas groups describe billing --members
      barnabas groups describe billing --follow
      barnabas groups describe billing --json | jq '.[].lag'
    """
    from barnabas.cli.client import ClusterClients
    from barnabas.cli.groups.groups_admin import GroupAdmin
    from barnabas.cli.groups.groups_describe import describe_group, show_groups
    from barnabas.cli.groups.groups_follow import follow as follow_groups

    client = GroupAdmin(ClusterClients(bootstrap, properties))

    def look() -> list[dict[str, Any]]:
        client.refresh()
        found = [(name, client.find(name)) for name in groups]
        consumers = [name for name, group in found if group.type.name == "CONSUMER"]
        details = _details(bootstrap, consumers)
        return [describe_group(client, group, details.get(name)) for name, group in found]

    if follow:
        follow_groups(look, lambda: client.wait(interval), members=members, json=json)
    elif json:
        show_json(look())
    else:
        show_groups(look(), members=members)


app.command("reset-offsets")(reset_offsets)


@app.command()
def delete(
    groups: Groups,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Delete groups without members, and their offsets. Asks for confirmation on a terminal.

    \b
    Examples:
      barnabas groups delete billing
      barnabas groups delete billing shipping --yes
    """
    from barnabas.cli.client import ClusterClients
    from barnabas.cli.groups.groups_admin import GroupAdmin, check_is_empty

    client = GroupAdmin(ClusterClients(bootstrap, properties))
    for name in groups:
        check_is_empty(client.find(name, "; nothing was deleted"), "deleted")
    if not yes:
        confirm(f"Delete {', '.join(groups)} and all committed offsets?", "nothing was deleted")
    for name in groups:
        client.delete(name)
        print(f"deleted group {name}")


@app.command("delete-offsets")
def delete_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Group id.")],
    topic: Topics = None,
    yes: Yes = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete offsets of topics the group no longer consumes. Asks for confirmation on a terminal.

    \b
    Examples:
      barnabas groups delete-offsets billing --topic orders
      barnabas groups delete-offsets billing --topic orders:0,1 --topic users
    """
    from barnabas.base.errors import ErrorCode
    from barnabas.cli.client import ClusterClients
    from barnabas.cli.groups.groups_admin import GroupAdmin
    from barnabas.cli.groups.groups_requests import delete_offsets as delete_by
    from barnabas.cli.groups.groups_reset import parse_topics
    from barnabas.cli.raw_client import ask_cluster
    from barnabas.client.retries import error_words

    check_groups([group])
    wanted = parse_topics(topic or ())
    if not wanted:
        raise Misused("nothing to delete: specify --topic TOPIC[:0,1]")
    client = GroupAdmin(ClusterClients(bootstrap, None))
    partitions = client.partitions(wanted)
    client.find(group, "; nothing was deleted")
    if not yes:
        names = ", ".join(topic or ())
        confirm(f"Delete the offsets of {group} for {names}?", "nothing was deleted")
    outcomes = ask_cluster(bootstrap, lambda raw: delete_by(raw, group, partitions))
    rows = [
        {
            **each.partition._asdict(),
            "result": "deleted" if each.code is ErrorCode.none else error_words(each.code),
        }
        for each in outcomes
    ]
    show_rows(rows, ("topic", "partition", "result"), json=json)
    failed = sum(each.code is not ErrorCode.none for each in outcomes)
    if failed:
        raise CommandFailed(f"failed to delete {failed} of {counted(len(rows), 'offset')}")
