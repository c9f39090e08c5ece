"""`barnabas elect`: trigger a preferred or unclean leader election."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, check_topics
from barnabas.cli.show import show_json, show_table

if TYPE_CHECKING:
    from barnabas.base.ids import TopicPartition
    from barnabas.cli.admin.admin_requests import PartitionOutcome
    from barnabas.cli.raw_client import RawClient


def elect(
    preferred: Annotated[
        bool, typer.Option("--preferred", help="Elect the preferred (first) replica; the default.")
    ] = False,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Elect any live replica if the ISR is offline: data loss."),
    ] = False,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Topic name.", callback=check_topics)
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition",
            "-p",
            min=0,
            help="Partition; repeatable; default: all.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All partitions.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Elect preferred leaders, or with --unclean leaders outside the ISR.

    \b
    Examples:
      barnabas elect --all
      barnabas elect --topic orders --partition 0
      barnabas elect --unclean --topic orders --partition 0
    """
    from barnabas.cli.raw_client import ask_cluster

    if preferred and unclean:
        raise Misused("specify either --preferred or --unclean")
    if (topic is None) == (not everything) or (everything and partition):
        raise Misused("specify either --topic NAME [--partition N] or --all")
    question = "Elect leaders that are out of sync? Records they lack are lost."
    if unclean and not yes and sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise CommandFailed("aborted; no election was started")
    outcomes = ask_cluster(bootstrap, lambda client: _elect(client, topic, partition, unclean))
    if json:
        show_json([_row(each) for each in outcomes])
    elif outcomes:
        columns = ("topic", "partition", "result")
        show_table(columns, [[_row(each)[column] for column in columns] for each in outcomes])
    else:
        print("no election needed")
    failed = sum(_has_failed(each) for each in outcomes)
    if failed:
        raise CommandFailed(f"{failed} of {len(outcomes)} elections failed")


async def _elect(
    client: "RawClient", topic: str | None, numbers: list[int] | None, unclean: bool
) -> "list[PartitionOutcome]":
    from barnabas.cli.admin.admin_requests import elect_leaders

    wanted = None if topic is None else await _partitions(client, topic, numbers)
    return await elect_leaders(client, wanted, unclean=unclean)


async def _partitions(
    client: "RawClient", topic: str, numbers: list[int] | None
) -> "list[TopicPartition]":
    from barnabas.base.errors import ErrorCode
    from barnabas.base.ids import TopicPartition
    from barnabas.cli.raw_client import refusal

    if not numbers:
        (found,) = (await client.metadata([topic])).topics
        if found.error_code is not ErrorCode.none:
            raise CommandFailed(f"topic {topic}: {refusal(found.error_code, None)}")
        numbers = sorted(each.partition_index for each in found.partitions)
    return [TopicPartition(topic, number) for number in dict.fromkeys(numbers)]


def _row(outcome: "PartitionOutcome") -> dict[str, object]:
    from barnabas.base.errors import ErrorCode
    from barnabas.cli.raw_client import refusal

    plain = {ErrorCode.none: "elected", ErrorCode.election_not_needed: "not needed"}
    result = plain.get(outcome.code) or refusal(outcome.code, outcome.message)
    return {
        "topic": outcome.partition.topic,
        "partition": outcome.partition.partition,
        "result": result,
    }


def _has_failed(outcome: "PartitionOutcome") -> bool:
    from barnabas.base.errors import ErrorCode

    return outcome.code not in (ErrorCode.none, ErrorCode.election_not_needed)
