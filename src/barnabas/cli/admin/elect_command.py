"""`barnabas elect`: have the controller choose leaders anew."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, check_topics
from barnabas.cli.show import show_json, show_table

if TYPE_CHECKING:
    from barnabas.cli.admin.admin_requests import Outcome
    from barnabas.cli.raw_client import RawClient
    from barnabas.cli.reassign.reassign_plan import Partition


def elect(
    preferred: Annotated[
        bool, typer.Option("--preferred", help="The first replica leads again; the default.")
    ] = False,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Any live replica where none in sync lives: loses records."),
    ] = False,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="A topic.", callback=check_topics)
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Of that topic; repeatable; all without it."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Or all partitions.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Elect leaders: the preferred ones, or with --unclean whatever is left.

    \b
    Examples:
      barnabas elect --all
      barnabas elect --topic orders --partition 0
      barnabas elect --unclean --topic orders --partition 0
    """
    from barnabas.cli.raw_client import ask_cluster

    if preferred and unclean:
        raise Misused("give either --preferred or --unclean")
    if (topic is None) == (not everything) or (everything and partition):
        raise Misused("give either --topic NAME [--partition N], or --all")
    question = "Elect leaders that are not in sync, and lose what they lack?"
    if unclean and not yes and sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise CommandFailed("nothing was elected")
    outcomes = ask_cluster(bootstrap, lambda client: _elect(client, topic, partition, unclean))
    if json:
        show_json([_row(each) for each in outcomes])
    elif outcomes:
        columns = ("topic", "partition", "result")
        show_table(columns, [[_row(each)[column] for column in columns] for each in outcomes])
    else:
        print("no partition needs an election")
    failed = sum(_has_failed(each) for each in outcomes)
    if failed:
        raise CommandFailed(f"{failed} of {len(outcomes)} elections failed")


async def _elect(
    client: "RawClient", topic: str | None, numbers: list[int] | None, unclean: bool
) -> "list[Outcome]":
    from barnabas.cli.admin.admin_requests import elect_leaders

    wanted = None if topic is None else await _partitions(client, topic, numbers)
    return await elect_leaders(client, wanted, unclean=unclean)


async def _partitions(
    client: "RawClient", topic: str, numbers: list[int] | None
) -> "list[Partition]":
    from barnabas.base.errors import ErrorCode
    from barnabas.cli.raw_client import refusal
    from barnabas.cli.reassign.reassign_plan import Partition

    if not numbers:
        (found,) = (await client.metadata([topic])).topics
        if found.error_code is not ErrorCode.none:
            raise CommandFailed(f"topic {topic}: {refusal(found.error_code, None)}")
        numbers = sorted(each.partition_index for each in found.partitions)
    return [Partition(topic, number) for number in dict.fromkeys(numbers)]


def _row(outcome: "Outcome") -> dict[str, object]:
    from barnabas.base.errors import ErrorCode
    from barnabas.cli.raw_client import refusal

    plain = {ErrorCode.none: "elected", ErrorCode.election_not_needed: "not needed"}
    result = plain.get(outcome.code) or refusal(outcome.code, outcome.message)
    return {
        "topic": outcome.partition.topic,
        "partition": outcome.partition.partition,
        "result": result,
    }


def _has_failed(outcome: "Outcome") -> bool:
    from barnabas.base.errors import ErrorCode

    return outcome.code not in (ErrorCode.none, ErrorCode.election_not_needed)
