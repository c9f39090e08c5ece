"""`barnabas elect`: trigger a preferred or unclean leader election."""

from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes, check_topics, confirm
from barnabas.cli.show import show_rows

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
    yes: Yes = False,
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
    if unclean and not yes:
        question = "Elect leaders that are out of sync? Records they lack are lost."
        confirm(question, "no election was started")
    outcomes = ask_cluster(bootstrap, lambda client: _elect(client, topic, partition, unclean))
    rows = [_row(each) for each in outcomes]
    show_rows(rows, ("topic", "partition", "result"), json=json, none="no election needed")
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
    from barnabas.base.ids import TopicPartition

    if not numbers:
        (found,) = (await client.describe_topics([topic])).topics
        numbers = sorted(each.partition_index for each in found.partitions)
    return [TopicPartition(topic, number) for number in dict.fromkeys(numbers)]


def _row(outcome: "PartitionOutcome") -> dict[str, object]:
    from barnabas.base.errors import ErrorCode
    from barnabas.client.retries import error_words

    plain = {ErrorCode.none: "elected", ErrorCode.election_not_needed: "not needed"}
    result = plain.get(outcome.code) or error_words(outcome.code, outcome.message)
    return {**outcome.partition._asdict(), "result": result}


def _has_failed(outcome: "PartitionOutcome") -> bool:
    from barnabas.base.errors import ErrorCode

    return outcome.code not in (ErrorCode.none, ErrorCode.election_not_needed)
