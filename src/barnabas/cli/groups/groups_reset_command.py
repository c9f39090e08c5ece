"""`barnabas groups reset-offsets`: show the new offsets, and commit them with --execute."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.exit_codes import Misused
from barnabas.cli.groups.groups_options import Groups, Topics
from barnabas.cli.groups.groups_reset import (
    Change,
    LogOffsets,
    Scenario,
    Where,
    decide_changes,
    format_plan_file,
    parse_duration_ms,
    parse_plan_file,
    parse_topics,
)
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Properties, read_text
from barnabas.cli.show import counted, show_rows

if TYPE_CHECKING:
    from barnabas.base.ids import TopicPartition
    from barnabas.cli.groups.groups_admin import GroupAdmin

Changes = Mapping[str, Sequence[Change]]


def reset_offsets(
    groups: Groups,
    topic: Topics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics with committed offsets.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Log start.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Log end.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Committed offset; log end if there is none.")
    ] = False,
    to_datetime: Annotated[
        str | None,
        typer.Option("--to-datetime", metavar="TIME", help="First record at or after TIME."),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option("--by-duration", metavar="PnDTnHnMnS", help="First record since then."),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", help="N records forward, or -N back."),
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, help="This offset.")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="CSV", help="File of topic,partition,offset."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the offsets.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the changes; the default.")
    ] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Print the new offsets as CSV for --from-file.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Reset the offsets of groups without members. Shows the changes; --execute commits them.

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
        raise Misused("specify either --dry-run or --execute")
    if export and json:
        raise Misused("specify either --export or --json")
    wanted = _scope(scenario, topic, all_topics=all_topics)
    requested = _read(from_file, groups) if from_file is not None else {}

    from barnabas.cli.client import ClusterClients
    from barnabas.cli.groups.groups_admin import GroupAdmin

    client = GroupAdmin(ClusterClients(bootstrap, properties))
    _check(client, groups)
    changes = {
        name: _changes_of(client, name, scenario, wanted, requested.get(name)) for name in groups
    }
    if execute:
        for name, each in changes.items():
            if each:
                client.commit(name, {change.partition: change.after for change in each})
    _show(changes, export=export, json=json)
    _summarize(changes, executed=execute)


def _scenario(given: Mapping[Where, object]) -> Scenario:
    """The given scenario. Raises Misused unless there is exactly one."""
    chosen = [(where, value) for where, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise Misused(f"specify one of {', '.join(where.value for where in given)}")
    where, value = chosen[0]
    # ListOffsets has no timestamps before 1970: -1 and -2 mean the log end and the log start.
    match where:
        case Where.DATETIME:
            from barnabas.cli.options import parse_moment

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
    """The given topics; None for all with committed offsets, or those of a plan file."""
    if scenario.where is Where.FILE:
        if topics:
            raise Misused("--topic cannot be used with --from-file, which lists the partitions")
        return None
    if bool(topics) == all_topics:
        raise Misused("specify either --topic TOPIC[:0,1] or --all-topics")
    return parse_topics(topics) if topics else None


def _read(file: Path, groups: Sequence[str]) -> "dict[str, dict[TopicPartition, int]]":
    if not file.is_file():
        raise Misused(f"--from-file {file}: No such file")
    return parse_plan_file(read_text(file), groups, str(file))


def _check(client: "GroupAdmin", groups: Sequence[str]) -> None:
    """Raises CommandFailed if a group has members; a group need not exist yet."""
    from barnabas.cli.groups.groups_admin import check_is_empty

    for name in groups:
        group = client.described(name)
        if group is None:
            likely = client.likely(name)
            hint = f" (did you mean {likely}?)" if likely else ""
            _note(f"group {name} does not exist{hint}; committing offsets creates it")
        else:
            check_is_empty(group, "reset")


def _changes_of(
    client: "GroupAdmin",
    name: str,
    scenario: Scenario,
    wanted: dict[str, list[int]] | None,
    requested: "dict[TopicPartition, int] | None",
) -> list[Change]:
    from barnabas.base.ids import by_topic

    committed = client.committed(name)
    if requested is not None:
        partitions = client.partitions(by_topic(requested))
    elif wanted is not None:
        partitions = client.partitions(wanted)
    else:
        partitions = [each for each in committed if client.exists(each)]
        for gone in sorted(set(committed) - set(partitions)):
            _note(f"{gone} no longer exists; its offset is left unchanged")
    since = {}
    if scenario.where in (Where.DATETIME, Where.DURATION):
        since = client.since(partitions, scenario.value)
    logs = LogOffsets(client.earliest(partitions), client.latest(partitions), since)
    return decide_changes(scenario, partitions, committed, logs, requested)


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
    columns = ["group", "topic", "partition", "from", "to", "difference"]
    if any(row["note"] for row in rows):
        columns.append("note")
    show_rows(rows, columns, json=json)


def _summarize(changes: Changes, *, executed: bool) -> None:
    number = sum(map(len, changes.values()))
    moved = sum(change.before != change.after for each in changes.values() for change in each)
    offsets = counted(number, "offset")
    if not number:
        _note("no offsets to reset")
    elif executed:
        _note(f"committed {offsets}, {moved} of them changed")
    else:
        _note(f"dry run: {moved} of {offsets} would change; use --execute to commit them")


def _note(text: str) -> None:
    print(text, file=sys.stderr)
