"""The reassignments of a cluster as a board: how far each new replica is, and the throttle."""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.cli.admin.admin_requests import BROKER, Moving
from barnabas.cli.reassign.reassign_progress import ReassignmentProgress, measure
from barnabas.cli.reassign.reassign_throttle import RATES
from barnabas.console.cluster.console_client import ClusterFailed, ConsoleClient
from barnabas.console.cluster.topic_index import PartitionRow, TopicIndex, read_partitions
from barnabas.console.cluster.topics import read_configs, read_sizes

_SHOWN: Final = 200


class NewReplica(NamedTuple):
    """A replica that is being added; its size is None if the broker does not answer."""

    broker: int
    size: int | None
    is_in_sync: bool


class MovingPartition(NamedTuple):
    """One partition that is being reassigned; `size` is that of its leader's log."""

    at: TopicPartition
    moving: Moving
    size: int | None
    added: tuple[NewReplica, ...]


class Board(NamedTuple):
    """All reassignments, some of them as rows, and the throttle of each broker that has one."""

    partitions: int
    rows: list[MovingPartition]
    progress: ReassignmentProgress
    throttles: Mapping[int, int]


async def read_board(
    client: ConsoleClient, index: TopicIndex, moving: Mapping[TopicPartition, Moving]
) -> Board:
    """Raises ClusterFailed"""
    states = {
        TopicPartition(name, each.partition): each
        for name in dict.fromkeys(at.topic for at in moving)
        if name in index.topics
        for each in read_partitions(index.topics[name])
    }
    wanted = {at: (states[at].leader, *each.adding) for at, each in moving.items() if at in states}
    sizes = (await read_sizes(client, wanted)).replicas
    in_sync = {at: frozenset(states[at].isr) for at in wanted}
    leaders = {at: states[at].leader for at in wanted}
    rows = [_row(at, moving[at], states.get(at), sizes) for at in sorted(moving)[:_SHOWN]]
    progress = measure(moving, moving, in_sync, sizes, leaders)
    return Board(len(moving), rows, progress, await read_throttles(client))


def _row(
    at: TopicPartition,
    moving: Moving,
    state: PartitionRow | None,
    sizes: Mapping[tuple[TopicPartition, int], int],
) -> MovingPartition:
    added = tuple(
        NewReplica(broker, sizes.get((at, broker)), state is not None and broker in state.isr)
        for broker in moving.adding
    )
    return MovingPartition(at, moving, sizes.get((at, state.leader)) if state else None, added)


async def read_throttles(client: ConsoleClient) -> dict[int, int]:
    """Bytes a second that brokers copy at most, of those that have such a bound and answer."""

    async def one(broker: int) -> int | None:
        try:
            found = await read_configs(client, BROKER, str(broker), RATES)
        except ClusterFailed:
            return None
        rates = [int(each.value) for each in found if each.value and each.is_changed]
        return min(rates, default=None)

    brokers = (await client.view()).ids
    rates = await asyncio.gather(*map(one, brokers))
    return {broker: rate for broker, rate in zip(brokers, rates, strict=True) if rate is not None}
