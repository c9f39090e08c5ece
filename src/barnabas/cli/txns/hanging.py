"""Hanging transactions: open in a partition, though no coordinator will ever end them."""

from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.raw_client import RawClient
from barnabas.cli.txns.txns_requests import (
    Description,
    Producer,
    describe_producers,
    describe_transaction,
    list_transactions,
)

MS_PER_MINUTE: Final = 60_000


async def find_hanging(
    client: RawClient,
    now_ms: int,
    *,
    broker: int | None,
    topic: str | None,
    partition: int | None,
    max_timeout_minutes: int,
) -> list[Producer]:
    """The transactions of these partitions that are older than the longest timeout and hang.

    Raises  CommandFailed, PeerGone
    """
    searched = await _search_space(client, broker, topic, partition)
    old = [
        producer
        for replica, partitions in searched.items()
        for producer in await describe_producers(client, replica, partitions)
        if producer.start_offset is not None
        and now_ms - producer.last_timestamp_ms > max_timeout_minutes * MS_PER_MINUTE
    ]
    return decide_hanging(old, await _owners(client, old))


def decide_hanging(old: Sequence[Producer], owners: Mapping[int, Description]) -> list[Producer]:
    """Those whose producer has no transactional id, or whose coordinator has no such partition.

    A coordinator describes the partitions of an open transaction, and those that still wait for
    a marker. So it will end the transaction in these and in no others.
    """
    return [
        each
        for each in old
        if each.producer_id not in owners or each.at not in owners[each.producer_id].partitions
    ]


async def _owners(client: RawClient, old: Sequence[Producer]) -> dict[int, Description]:
    """The transactional id of each producer, where a coordinator knows one."""
    producer_ids = list(dict.fromkeys(each.producer_id for each in old))
    if not producer_ids:
        return {}
    found = {}
    for listing in await list_transactions(client, producer_ids=producer_ids):
        described = await describe_transaction(client, listing.transactional_id)
        if described is not None and listing.producer_id in producer_ids:
            found[listing.producer_id] = described
    return found


async def _search_space(
    client: RawClient, broker: int | None, topic: str | None, partition: int | None
) -> dict[int, list[TopicPartition]]:
    """The partitions to search, by the broker to ask: `broker`, or else the leader of each."""
    described = await (client.metadata(None) if topic is None else client.describe_topics([topic]))
    known = {
        TopicPartition(each.name, part.partition_index): part
        for each in described.topics
        for part in each.partitions
    }
    if topic is not None and partition is not None:
        if TopicPartition(topic, partition) not in known:
            raise CommandFailed(f"topic {topic} has no partition {partition}")
        known = {at: part for at, part in known.items() if at.partition == partition}
    found: dict[int, list[TopicPartition]] = {}
    for at, part in sorted(known.items()):
        if broker is None:
            found.setdefault(part.leader_id, []).append(at)
        elif broker in part.replica_nodes:
            found.setdefault(broker, []).append(at)
    if leaderless := found.get(-1):
        at = leaderless[0]
        raise CommandFailed(f"partition {at.topic}:{at.partition} has no leader; try --broker-id")
    return found
