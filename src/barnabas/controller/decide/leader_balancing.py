"""Sending leaders home: how far leadership has drifted from the preferred leaders, and what to do.

A broker is out of balance when more than a percentage of the partitions that prefer it are led by
another. It gets them back by preferred elections, which need the preferred leader in sync.
"""

from typing import NamedTuple

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Context
from barnabas.controller.decide.steps import MovePartitions, Selector, Steps
from barnabas.controller.states import PartitionState


class Imbalance(NamedTuple):
    """Which share (0 to 1) of a broker's partitions others lead, and those it can lead now."""

    share: float
    partitions: list[TopicPartition]


class Balance(NamedTuple):
    """What was found for each preferred leader, and the elections that would set it right."""

    brokers: dict[BrokerId, Imbalance]
    steps: Steps


def decide_balance(context: Context, percentage: int) -> Balance:
    """Look at every broker, and elect for those above `percentage`.

    Topics that are being deleted do not count. While anything is being moved nothing is elected:
    the move will choose leaders itself.
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
    strayed: dict[BrokerId, list[TopicPartition]] = {}
    for partition in context.partitions():
        if not context.is_deleting(partition.topic):
            preferred = context.assignment(partition).replicas[0]
            preferring[preferred] = preferring.get(preferred, 0) + 1
            led = context.led.get(partition)
            if led is not None and led.state.leader != preferred:
                strayed.setdefault(preferred, []).append(partition)
    return {
        broker: Imbalance(
            len(strayed.get(broker, ())) / count,
            [each for each in strayed.get(broker, ()) if preferred_can_lead(context, each)],
        )
        for broker, count in preferring.items()
    }


def preferred_can_lead(context: Context, partition: TopicPartition) -> bool:
    """Whether the first replica is alive, not about to stop, and in sync."""
    preferred = context.assignment(partition).replicas[0]
    led = context.led.get(partition)
    return (
        led is not None
        and preferred in led.state.isr
        and context.is_available(preferred, partition)
    )
