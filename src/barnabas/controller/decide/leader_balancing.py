"""Leader balancing: preferred elections for brokers that lead too few of their partitions.

A broker is imbalanced when other brokers lead more than a percentage of the partitions whose
preferred leader it is. Preferred elections return them; the preferred leader must be in sync.
"""

from typing import NamedTuple

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Context
from barnabas.controller.decide.steps import (
    MovePartitions,
    Steps,
)
from barnabas.controller.states import PartitionState, Selector


class Imbalance(NamedTuple):
    """The share (0 to 1) of a broker's partitions that others lead, and those it can lead now."""

    share: float
    partitions: list[TopicPartition]


class Balance(NamedTuple):
    """The imbalance of each preferred leader, and the elections that correct it."""

    brokers: dict[BrokerId, Imbalance]
    steps: Steps


def decide_balance(context: Context, percentage: int) -> Balance:
    """Measure every broker's imbalance and elect preferred leaders above `percentage`.

    Topics that are being deleted do not count. During any reassignment nothing is elected: the
    reassignment elects leaders itself.
    """
    brokers = _imbalances(context)
    if context.reassigning():
        return Balance(brokers, ())
    return Balance(
        brokers,
        tuple(
            MovePartitions(tuple(found.partitions), PartitionState.ONLINE, Selector.PREFERRED)
            for found in brokers.values()
            if found.share > percentage / 100 and found.partitions
        ),
    )


def _imbalances(context: Context) -> dict[BrokerId, Imbalance]:
    preferring: dict[BrokerId, int] = {}
    led_by_others: dict[BrokerId, list[TopicPartition]] = {}
    for partition in context.partitions():
        if not context.is_deleting(partition.topic):
            preferred = context.assignment(partition).replicas[0]
            preferring[preferred] = preferring.get(preferred, 0) + 1
            leadership = context.leadership.get(partition)
            if leadership is not None and leadership.state.leader != preferred:
                led_by_others.setdefault(preferred, []).append(partition)
    return {
        broker: Imbalance(
            len(led_by_others.get(broker, ())) / count,
            [each for each in led_by_others.get(broker, ()) if preferred_can_lead(context, each)],
        )
        for broker, count in preferring.items()
    }


def preferred_can_lead(context: Context, partition: TopicPartition) -> bool:
    """True if the preferred leader is alive, not shutting down, and in sync."""
    preferred = context.assignment(partition).replicas[0]
    leadership = context.leadership.get(partition)
    return (
        leadership is not None
        and preferred in leadership.state.isr
        and context.is_available(preferred, partition)
    )


def led_by_others(context: Context) -> list[TopicPartition]:
    """The partitions that a broker other than the preferred leader leads."""
    return [
        partition
        for partition, leadership in context.leadership.items()
        if partition in context
        and not context.is_deleting(partition.topic)
        and leadership.state.leader != context.assignment(partition).replicas[0]
    ]
