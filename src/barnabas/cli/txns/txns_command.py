"""`barnabas txns`: list and describe transactions, find hanging ones, abort them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes, check_topics, confirm
from barnabas.cli.show import show_json, show_table
from barnabas.cli.subcommands import command_group

app = command_group(
    """List and describe transactions, find hanging ones, abort them.

    \b
    Examples:
      barnabas txns list --duration-filter 60000
      barnabas txns describe payments-1
      barnabas txns find-hanging --topic payments
      barnabas txns abort --topic payments --partition 0 --start-offset 42
    """
)

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)
# The headings of kafka-transactions.sh for each field.
_HEADINGS: Final = {
    "transactional_id": "TransactionalId",
    "coordinator": "Coordinator",
    "coordinator_id": "CoordinatorId",
    "producer_id": "ProducerId",
    "state": "TransactionState",
    "producer_epoch": "ProducerEpoch",
    "timeout_ms": "TransactionTimeoutMs",
    "start_ms": "CurrentTransactionStartTimeMs",
    "duration_ms": "TransactionDurationMs",
    "partitions": "TopicPartitions",
    "topic": "Topic",
    "partition": "Partition",
    "latest_coordinator_epoch": "LatestCoordinatorEpoch",
    "coordinator_epoch": "CoordinatorEpoch",
    "last_sequence": "LastSequence",
    "last_timestamp_ms": "LastTimestamp",
    "start_offset": "StartOffset",
    "current_start_offset": "CurrentTransactionStartOffset",
    "duration_minutes": "Duration(min)",
}

Partition = Annotated[int | None, typer.Option("--partition", min=0, help="Partition number.")]
BrokerId = Annotated[
    int | None, typer.Option("--broker-id", min=0, help="Ask this replica, not the leaders.")
]
TopicOption = Annotated[
    str, typer.Option("--topic", metavar="TOPIC", help="Topic name.", callback=check_topics)
]


def _show(rows: Sequence[Mapping[str, object]], columns: Sequence[str], *, json: bool) -> None:
    """Print rows as JSON, or as the table that kafka-transactions.sh prints."""
    if json:
        show_json(rows)
        return
    headings = [_HEADINGS[column] for column in columns]
    show_table(
        headings, [["None" if (v := row[c]) is None else v for c in columns] for row in rows]
    )


@app.command("list")
def list_transactions(
    duration_filter: Annotated[
        int,
        typer.Option(
            "--duration-filter", metavar="MS", help="Only those open for longer; -1: all."
        ),
    ] = -1,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE[,...]", help="Only these states: Ongoing, ..."),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", metavar="ID", help="Only of these producers; repeatable."),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List transactional ids with their coordinator, producer id and state.

    \b
    Examples:
      barnabas txns list
      barnabas txns list --state Ongoing --duration-filter 60000
    """
    from barnabas.cli.raw_client import ask_cluster
    from barnabas.cli.txns import txns_requests

    states = _states(state or [])
    found = ask_cluster(
        bootstrap,
        lambda client: txns_requests.list_transactions(
            client,
            states=states,
            producer_ids=producer_id or (),
            longer_than_ms=duration_filter,
        ),
    )
    columns = ("transactional_id", "coordinator", "producer_id", "state")
    _show([each._asdict() for each in found], columns, json=json)


def _states(given: Sequence[str]) -> list[str]:
    """The given states, repeated or comma-separated, as Kafka spells them. Raises Misused."""
    proper = {each.lower(): each for each in STATES}
    words = [word.strip() for text in given for word in text.split(",")]
    for word in words:
        if word.lower() not in proper:
            raise Misused(f"--state {word}: expected {', '.join(STATES)}")
    return [proper[word.lower()] for word in words]


@app.command()
def describe(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="TRANSACTIONAL_ID", help="The ids.")
    ] = None,
    transactional_id: Annotated[
        list[str] | None,
        typer.Option("--transactional-id", metavar="ID", help="The same; repeatable."),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show state, epoch, start and partitions of transactional ids.

    \b
    Examples:
      barnabas txns describe payments-1
      barnabas txns describe --transactional-id payments-1 --json
    """
    from barnabas.base.clock import SystemClock
    from barnabas.cli.raw_client import RawClient, ask_cluster
    from barnabas.cli.txns.txns_requests import Description, describe_transaction

    wanted = list(dict.fromkeys([*(ids or ()), *(transactional_id or ())]))
    if not wanted or not all(wanted):
        raise Misused("specify a TRANSACTIONAL_ID; `barnabas txns list` shows them")

    async def work(client: RawClient) -> list[Description | None]:
        return [await describe_transaction(client, each) for each in wanted]

    found = ask_cluster(bootstrap, work)
    now_ms = SystemClock().now_ms()
    rows = [
        {
            **each._asdict(),
            "coordinator_id": each.coordinator,
            "duration_ms": None if each.start_ms is None else now_ms - each.start_ms,
            "partitions": [f"{at.topic}-{at.partition}" for at in each.partitions],
        }
        for each in found
        if each is not None
    ]
    _show(
        rows,
        (
            "coordinator_id",
            "transactional_id",
            "producer_id",
            "producer_epoch",
            "state",
            "timeout_ms",
            "start_ms",
            "duration_ms",
            "partitions",
        ),
        json=json,
    )
    unknown = [name for name, each in zip(wanted, found, strict=True) if each is None]
    if unknown:
        raise CommandFailed(f"unknown transactional id {', '.join(unknown)}")


@app.command("describe-producers")
def describe_producers(
    topic: TopicOption,
    partition: Annotated[int, typer.Option("--partition", min=0, help="Partition number.")],
    broker_id: BrokerId = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the producers that a partition knows, and their open transactions.

    \b
    Examples:
      barnabas txns describe-producers --topic payments --partition 0
    """
    from barnabas.base.ids import TopicPartition
    from barnabas.cli.raw_client import RawClient, ask_cluster
    from barnabas.cli.txns.txns_requests import Producer, leader_of
    from barnabas.cli.txns.txns_requests import describe_producers as ask_producers

    at = TopicPartition(topic, partition)

    async def work(client: RawClient) -> list[Producer]:
        asked = await leader_of(client, at) if broker_id is None else broker_id
        return await ask_producers(client, asked, [at])

    rows = [
        {
            **each._asdict(),
            "at": None,
            "latest_coordinator_epoch": each.coordinator_epoch,
            "current_start_offset": each.start_offset,
        }
        for each in ask_cluster(bootstrap, work)
    ]
    columns = (
        "producer_id",
        "producer_epoch",
        "latest_coordinator_epoch",
        "last_sequence",
        "last_timestamp_ms",
        "current_start_offset",
    )
    _show([{column: row[column] for column in columns} for row in rows], columns, json=json)


@app.command("find-hanging")
def find_hanging(
    broker_id: BrokerId = None,
    max_transaction_timeout: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout",
            min=0,
            metavar="MINUTES",
            help="Only transactions without a record for longer than this.",
        ),
    ] = 15,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="TOPIC", help="Search this topic.", callback=check_topics),
    ] = None,
    partition: Partition = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Find transactions that block readers, though no coordinator will end them.

    \b
    Examples:
      barnabas txns find-hanging --broker-id 0
      barnabas txns find-hanging --topic payments --partition 0 --max-transaction-timeout 5
    """
    from barnabas.base.clock import SystemClock
    from barnabas.cli.raw_client import ask_cluster
    from barnabas.cli.txns import hanging

    if topic is None and broker_id is None:
        raise Misused("specify --topic or --broker-id to limit the search")
    if topic is None and partition is not None:
        raise Misused("--partition needs --topic")
    now_ms = SystemClock().now_ms()
    found = ask_cluster(
        bootstrap,
        lambda client: hanging.find_hanging(
            client,
            now_ms,
            broker=broker_id,
            topic=topic,
            partition=partition,
            max_timeout_minutes=max_transaction_timeout,
        ),
    )
    columns = (
        "topic",
        "partition",
        "producer_id",
        "producer_epoch",
        "coordinator_epoch",
        "start_offset",
        "last_timestamp_ms",
        "duration_minutes",
    )
    rows = [
        {
            **each.at._asdict(),
            **each._asdict(),
            "duration_minutes": (now_ms - each.last_timestamp_ms) // hanging.MS_PER_MINUTE,
        }
        for each in found
    ]
    _show([{column: row[column] for column in columns} for row in rows], columns, json=json)


@app.command()
def abort(
    topic: TopicOption,
    partition: Annotated[int, typer.Option("--partition", min=0, help="Partition number.")],
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", min=0, help="First offset of the transaction."),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", min=0, help="Instead, for Kafka before 3.0.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option("--producer-epoch", min=0, help="With --producer-id.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None, typer.Option("--coordinator-epoch", min=-1, help="With --producer-id.")
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Abort a hanging transaction in one partition. Asks for confirmation on a terminal.

    The coordinator does not notice: use this only for what `find-hanging` reports.

    \b
    Examples:
      barnabas txns abort --topic payments --partition 0 --start-offset 42
    """
    from barnabas.base.ids import TopicPartition
    from barnabas.cli.raw_client import RawClient, ask_cluster
    from barnabas.cli.txns.txns_requests import leader_of, open_transaction, write_abort_marker

    given = (producer_id, producer_epoch, coordinator_epoch)
    if start_offset is None and None in given:
        raise Misused(
            "specify --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch"
        )
    at = TopicPartition(topic, partition)
    if not yes:
        confirm(f"Abort the transaction in {topic}:{partition}?", "nothing was aborted")

    async def work(client: RawClient) -> int:
        leader = await leader_of(client, at)
        if start_offset is not None:
            found = await open_transaction(client, leader, at, start_offset)
        else:
            found = (producer_id or 0, producer_epoch or 0, coordinator_epoch or 0)
        await write_abort_marker(client, leader, at, *found)
        return found[0]

    print(
        f"aborted the transaction of producer {ask_cluster(bootstrap, work)} in {topic}:{partition}"
    )
