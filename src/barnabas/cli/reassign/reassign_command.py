"""`barnabas reassign`: move replicas of partitions to other brokers."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.base.ids import TopicPartition, by_topic
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, read_text
from barnabas.cli.reassign.reassign_plan import (
    LogDirs,
    Plan,
    format_plan,
    moved,
    parse_log_dirs,
    parse_partitions,
    parse_plan,
    propose,
)
from barnabas.cli.show import counted, show_rows, show_table
from barnabas.cli.subcommands import command_group

if TYPE_CHECKING:
    from barnabas.cli.admin.admin_requests import Moving, PartitionOutcome
    from barnabas.cli.raw_client import RawClient

app = command_group(
    """Move replicas of partitions to other brokers, and watch the progress.

    \b
    Examples:
      barnabas reassign generate --topics orders --brokers 0,1,2 > plan.json
      barnabas reassign run --file plan.json --throttle 10000000
      barnabas reassign run --partition orders:0=1,2
      barnabas reassign watch
      barnabas reassign cancel --all
    """
)

PlanFile = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="FILE", help="Reassignment JSON file, in Kafka's format."),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="Stop watching after this time."),
]
KeepThrottles = Annotated[
    bool, typer.Option("--keep-throttles", help="Do not remove throttles at the end.")
]


@app.command()
def generate(
    topics: Annotated[
        str, typer.Option("--topics", "-t", metavar="NAME,...", help="Topics to reassign.")
    ],
    brokers: Annotated[
        str | None,
        typer.Option("--brokers", metavar="ID,...", help="Brokers to use; default: all live ones."),
    ] = None,
    no_racks: Annotated[bool, typer.Option("--no-racks", help="Ignore racks.")] = False,
    save_current: Annotated[
        Path | None,
        typer.Option(
            "--save-current", metavar="FILE", help="Save the current assignment, for rollback."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Propose a balanced plan that moves as few replicas as possible.

    Prints the plan on stdout, in the format of kafka-reassign-partitions, and a table of current
    and proposed replicas on stderr. Changes nothing.

    \b
    Examples:
      barnabas reassign generate --topics orders,users --brokers 0,1,2 > plan.json
    """
    from barnabas.cli.raw_client import ask_cluster

    names = [name for name in topics.split(",") if name]
    wanted = None if brokers is None else parse_brokers(brokers)
    current, racks = ask_cluster(bootstrap, lambda client: _read(client, names, wanted))
    plan = propose(current, dict.fromkeys(racks) if no_racks else racks)
    if save_current is not None:
        save_current.write_text(f"{format_plan(current)}\n")
    columns = ("topic", "partition", "replicas", "proposed")
    rows = [[*p, list(current[p]), list(plan[p])] for p in plan]
    show_table(columns, rows, sys.stderr)
    print(f"{counted(moved(current, plan), 'replica')} to copy", file=sys.stderr)
    print(format_plan(plan))


def parse_brokers(text: str) -> list[int]:
    numbers = [part.strip() for part in text.split(",")]
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise Misused(f"--brokers {text}: expected broker ids such as 0,1,2")
    return list(dict.fromkeys(map(int, numbers)))


async def _read(
    client: "RawClient", topics: Sequence[str], wanted: Sequence[int] | None
) -> tuple[Plan, dict[int, str | None]]:
    """The current replicas of the topics, and the racks of the brokers to use."""
    metadata = await client.describe_topics(topics)
    racks = {broker.node_id: broker.rack for broker in metadata.brokers}
    if missing := [str(number) for number in wanted or () if number not in racks]:
        known = ", ".join(map(str, sorted(racks)))
        raise CommandFailed(f"unknown broker {', '.join(missing)}; live brokers: {known}")
    current = {
        TopicPartition(topic.name, each.partition_index): list(each.replica_nodes)
        for topic in metadata.topics
        for each in topic.partitions
    }
    return current, {number: racks[number] for number in wanted or sorted(racks)}


@app.command()
def run(
    file: PlanFile = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            "--partition", "-p", metavar="TOPIC:N=ID,...", help="New replicas; repeatable."
        ),
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", metavar="BYTES/S", min=1, help="Rate limit per broker."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Watch until all are done.")
    ] = True,
    timeout: Timeout = None,
    keep_throttles: KeepThrottles = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Start reassignments, and watch them until they are done. Ctrl-C stops only the watching.

    With --no-wait or after Ctrl-C, remove the throttle with `barnabas reassign watch`. A plan file
    may name a log directory for each replica (log_dirs), as kafka-reassign-partitions has it;
    replicas also move between log directories of the same broker.

    \b
    Examples:
      barnabas reassign run --file plan.json --throttle 10000000
      barnabas reassign run --partition orders:0=1,2 --partition orders:1=2,0 --no-wait
    """
    from barnabas.cli.raw_client import ask_cluster

    plan = _gather(file, partition)
    log_dirs = {} if file is None else parse_log_dirs(read_text(file), str(file))

    async def work(client: "RawClient") -> None:
        await _begin(client, plan, log_dirs, throttle)
        if wait:
            await _watch(client, timeout, log_dirs, keep_throttles=keep_throttles)

    ask_cluster(bootstrap, work)


def _gather(file: Path | None, partitions: list[str] | None) -> Plan:
    if (file is None) == (not partitions):
        raise Misused("specify either --file PLAN or --partition TOPIC:N=ID,...")
    return parse_partitions(partitions or ()) if file is None else _read_plan(file)


def _read_plan(file: Path) -> Plan:
    return parse_plan(read_text(file), str(file))


async def _begin(client: "RawClient", plan: Plan, log_dirs: LogDirs, throttle: int | None) -> None:
    from barnabas.cli.admin.admin_requests import alter_reassignments
    from barnabas.cli.reassign.reassign_log_dirs import start_moves
    from barnabas.cli.reassign.reassign_throttle import set_throttles

    current, _ = await _read(client, list(by_topic(plan)), None)
    for partition in plan:
        if partition not in current:
            raise CommandFailed(f"unknown partition {partition}; nothing was started")
    if throttle is not None:
        await set_throttles(client, current, plan, throttle)
        print(f"throttled to {throttle} bytes per second", file=sys.stderr)
    # First, so that new replicas are created where they belong.
    _check(await start_moves(client, log_dirs), "move")
    _check(await alter_reassignments(client, plan), "start")
    copies = counted(moved(current, plan), "replica")
    print(f"started: {counted(len(plan), 'partition')}, {copies} to copy", file=sys.stderr)


def _check(outcomes: "Sequence[PartitionOutcome]", verb: str) -> None:
    """Print each rejection. Raises CommandFailed if there is any."""
    from barnabas.base.errors import ErrorCode
    from barnabas.client.retries import error_words

    failed = [each for each in outcomes if each.code is not ErrorCode.none]
    for each in failed:
        print(f"{each.partition}: {error_words(each.code, each.message)}", file=sys.stderr)
    if failed:
        raise CommandFailed(f"failed to {verb} {len(failed)} of {len(outcomes)}")


async def _watch(
    client: "RawClient", timeout_s: float | None, log_dirs: LogDirs, *, keep_throttles: bool
) -> None:
    from barnabas.cli.reassign.reassign_log_dirs import watch_moves
    from barnabas.cli.reassign.reassign_progress import watch as until_done
    from barnabas.cli.reassign.reassign_throttle import clear_throttles

    count = await until_done(client, timeout_s)
    print(f"done: {counted(count, 'partition')}" if count else "no reassignments in progress")
    if log_dirs and (in_place := await watch_moves(client, log_dirs, timeout_s)):
        print(f"in the requested log directories: {counted(in_place, 'replica')}")
    throttled = [] if keep_throttles else await clear_throttles(client)
    if throttled:
        print(f"removed throttles: {', '.join(throttled)}", file=sys.stderr)


@app.command()
def watch(
    timeout: Timeout = None,
    keep_throttles: KeepThrottles = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Watch all reassignments until they are done, then remove throttles.

    \b
    Examples:
      barnabas reassign watch
      barnabas reassign watch --timeout 60 || echo still in progress
    """
    from barnabas.cli.raw_client import ask_cluster

    ask_cluster(
        bootstrap, lambda client: _watch(client, timeout, {}, keep_throttles=keep_throttles)
    )


@app.command()
def cancel(
    file: PlanFile = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All reassignments.")] = False,
    keep_throttles: KeepThrottles = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Cancel reassignments: the previous replicas stay, added ones are removed.

    \b
    Examples:
      barnabas reassign cancel --all
      barnabas reassign cancel --file plan.json
    """
    from barnabas.cli.raw_client import ask_cluster

    if (file is None) == (not everything):
        raise Misused("specify either --file PLAN or --all")
    plan = None if file is None else _read_plan(file)
    ask_cluster(bootstrap, lambda client: _cancel(client, plan, keep_throttles=keep_throttles))


async def _cancel(client: "RawClient", plan: Plan | None, *, keep_throttles: bool) -> None:
    from barnabas.cli.admin.admin_requests import alter_reassignments, list_reassignments
    from barnabas.cli.reassign.reassign_throttle import clear_throttles

    under_way = await list_reassignments(client)
    ending = [partition for partition in under_way if plan is None or partition in plan]
    if ending:
        _check(await alter_reassignments(client, dict.fromkeys(ending)), "cancel")
    print(f"cancelled: {counted(len(ending), 'partition')}")
    # Rates apply per broker: keep them while other reassignments are in progress.
    if len(ending) == len(under_way) and not keep_throttles:
        await clear_throttles(client)


@app.command("list")
def list_all(json: Json = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """List the reassignments in progress.

    \b
    Examples:
      barnabas reassign list
      barnabas reassign list --json | jq length
    """
    from barnabas.cli.admin.admin_requests import list_reassignments
    from barnabas.cli.raw_client import ask_cluster

    rows = [_row(*item) for item in sorted(ask_cluster(bootstrap, list_reassignments).items())]
    columns = ("topic", "partition", "replicas", "adding", "removing")
    show_rows(rows, columns, json=json, none="no reassignments in progress")


def _row(partition: TopicPartition, moving: "Moving") -> dict[str, object]:
    lists = {name: list(brokers) for name, brokers in moving._asdict().items()}
    return {**partition._asdict(), **lists}
