"""`barnabas groups reset-offsets`: shows where offsets would be, and puts them there if told to."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.groups.groups_options import Groups, Topics
from barnabas.cli.groups.groups_reset import (
    Change,
    Logs,
    Scenario,
    Where,
    decide_changes,
    format_plan_file,
    parse_duration_ms,
    parse_plan_file,
    parse_topics,
)
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Properties
from barnabas.cli.show import counted, show_json, show_table

if TYPE_CHECKING:
    from barnabas.cli.groups.groups_admin import GroupAdmin
    from barnabas.cli.reassign.reassign_plan import Partition

Changes = Mapping[str, Sequence[Change]]


def reset_offsets(
    groups: Groups,
    topic: Topics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All that the group has offsets for.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="The beginning.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="The end.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Where it is; the end where it is nowhere.")
    ] = False,
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", metavar="TIME", help="2026-01-31T12:00:00Z.")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="PnDTnHnMnS", help="So long ago.")
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", help="So many further; -N back."),
    ] = None,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="This one.")] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="CSV", help="Lines of topic,partition,offset."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change; the default.")
    ] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Print the new offsets as --from-file takes them.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Move the offsets of a group without members: where to is shown, --execute does it.

    \b
    Examples:
      barnabas groups reset-offsets billing --topic orders --to-earliest
      barnabas groups reset-offsets billing --topic orders:0,1 --shift-by -100 --execute
      barnabas groups reset-offsets billing --all-topics --to-datetime 2026-01-31T12:00:00Z
      barnabas groups reset-offsets billing --all-topics --by-duration PT1H30M --execute
      barnabas groups reset-offsets billing --all-topics --to-current --export > offsets.csv
      barnabas groups reset-offsets billing --from-file offsets.csv --execute
    """
    scenario = _scenario(
        {
            Where.EARLIEST: to_earliest or None,
            Where.LATEST: to_latest or None,
            Where.CURRENT: to_current or None,
            Where.DATETIME: to_datetime,
            Where.DURATION: by_duration,
            Where.SHIFT: shift_by,
            Where.OFFSET: to_offset,
            Where.FILE: from_file,
        }
    )
    if execute and dry_run:
        raise Misused("give either --dry-run or --execute")
    if export and json:
        raise Misused("give either --export or --json")
    wanted = _scope(scenario, topic, all_topics=all_topics)
    requested = _read(from_file, groups) if from_file is not None else {}

    from barnabas.cli.client import Cluster
    from barnabas.cli.groups.groups_admin import GroupAdmin

    client = GroupAdmin(Cluster(bootstrap, properties))
    _check(client, groups)
    changes = {
        name: _decide(client, name, scenario, wanted, requested.get(name)) for name in groups
    }
    if execute:
        for name, each in changes.items():
            if each:
                client.commit(name, {change.partition: change.after for change in each})
    _show(changes, export=export, json=json)
    _tell(changes, executed=execute)


def _scenario(given: Mapping[Where, object]) -> Scenario:
    """The one scenario of those that is given. Raises Misused if that is not one."""
    chosen = [(where, value) for where, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise Misused(f"give one of {', '.join(where.value for where in given)}")
    where, value = chosen[0]
    # To brokers a time before 1970 is no time: -1 and -2 are the end and the beginning.
    match where:
        case Where.DATETIME:
            from barnabas.cli.io.start_positions import parse_moment

            return Scenario(where, max(0, parse_moment(str(value), "--to-datetime ")))
        case Where.DURATION:
            from barnabas.base.clock import SystemClock

            ago_ms = parse_duration_ms(str(value))
            return Scenario(where, max(0, SystemClock().now_ms() - ago_ms))
        case _:
            return Scenario(where, value if isinstance(value, int) else 0)


def _scope(
    scenario: Scenario, topics: list[str] | None, *, all_topics: bool
) -> dict[str, list[int]] | None:
    """The topics named, None for all that the group has offsets for, or that a file names."""
    if scenario.where is Where.FILE:
        if topics:
            raise Misused("--from-file names the partitions itself; leave out --topic")
        return None
    if bool(topics) == all_topics:
        raise Misused("give either --topic TOPIC[:0,1] or --all-topics")
    return parse_topics(topics) if topics else None


def _read(file: Path, groups: Sequence[str]) -> "dict[str, dict[Partition, int]]":
    try:
        text = file.read_text()
    except OSError as error:
        raise Misused(f"--from-file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandFailed(f"{file} is not text") from None
    return parse_plan_file(text, groups, str(file))


def _check(client: "GroupAdmin", groups: Sequence[str]) -> None:
    """Raises CommandFailed if one has members, before any is touched; one may be new."""
    from barnabas.cli.groups.groups_admin import check_is_empty

    for name in groups:
        group = client.described(name)
        if group is None:
            _note(f"there is no group {name} yet; committing offsets for it creates it")
        else:
            check_is_empty(group, "reset")


def _decide(
    client: "GroupAdmin",
    name: str,
    scenario: Scenario,
    wanted: dict[str, list[int]] | None,
    requested: "dict[Partition, int] | None",
) -> list[Change]:
    committed = client.committed(name)
    if requested is not None:
        partitions = client.partitions(_by_topic(requested))
    elif wanted is not None:
        partitions = client.partitions(wanted)
    else:
        partitions = [each for each in committed if client.exists(each)]
        for gone in sorted(set(committed) - set(partitions)):
            _note(f"{gone} is no longer there; its offset stays")
    since = {}
    if scenario.where in (Where.DATETIME, Where.DURATION):
        since = client.since(partitions, scenario.value)
    logs = Logs(client.earliest(partitions), client.latest(partitions), since)
    return decide_changes(scenario, partitions, committed, logs, requested)


def _by_topic(partitions: "Mapping[Partition, int]") -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


def _show(changes: Changes, *, export: bool, json: bool) -> None:
    if export:
        print(format_plan_file(changes), end="")
        return
    rows = [
        {
            "group": name,
            **change.partition._asdict(),
            "from": change.before,
            "to": change.after,
            "difference": change.difference,
            "note": change.note,
        }
        for name, each in changes.items()
        for change in each
    ]
    if json:
        show_json(rows)
    elif rows:
        columns = ("group", "topic", "partition", "from", "to", "difference", "note")
        shown = [
            column for column in columns if column != "note" or any(row["note"] for row in rows)
        ]
        show_table(shown, [[row[column] for column in shown] for row in rows])


def _tell(changes: Changes, *, executed: bool) -> None:
    number = sum(map(len, changes.values()))
    moved = sum(change.before != change.after for each in changes.values() for change in each)
    offsets = counted(number, "offset")
    if not number:
        _note("there are no offsets to reset")
    elif executed:
        _note(f"committed {offsets}, {moved} of them changed")
    else:
        _note(f"{moved} of {offsets} would change; nothing was done: --execute does it")


def _note(text: str) -> None:
    print(text, file=sys.stderr)
