"""Elections that a person asks for: the preferred leader, or any at all."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Context
from barnabas.controller.decide.leader_balancing import preferred_can_lead
from barnabas.controller.decide.steps import MovePartitions, Refusal, Selector, Steps
from barnabas.controller.states import PartitionState


class Elections(NamedTuple):
    """What to do, and who is answered without it. The others are answered by what comes of it."""

    steps: Steps
    answers: dict[TopicPartition, Refusal]


def decide_elections(
    context: Context, partitions: Iterable[TopicPartition] | None, by: Selector
) -> Elections:
    """Elect with PREFERRED, or with OFFLINE_UNCLEAN where nobody leads.

    None asks for all partitions; then those that need no election are not spoken of.
    """
    asked = context.partitions() if partitions is None else partitions
    answers: dict[TopicPartition, Refusal] = {}
    elect: list[TopicPartition] = []
    for partition in dict.fromkeys(asked):
        refusal = _refusal(context, partition, by)
        if refusal is None:
            elect.append(partition)
        elif partitions is not None or refusal not in (NOT_NEEDED, _DELETED):
            answers[partition] = refusal
    steps = (MovePartitions(tuple(elect), PartitionState.ONLINE, by),) if elect else ()
    return Elections(steps, answers)


def _refusal(context: Context, partition: TopicPartition, by: Selector) -> Refusal | None:
    if partition not in context:
        return _UNKNOWN
    if context.is_deleting(partition.topic):
        return _DELETED
    if by is Selector.PREFERRED:
        return _preferred_refusal(context, partition)
    return _unclean_refusal(context, partition)


def _preferred_refusal(context: Context, partition: TopicPartition) -> Refusal | None:
    led = context.led.get(partition)
    replicas = context.assignment(partition).replicas
    if led is not None and led.state.leader == replicas[0]:
        return NOT_NEEDED
    if preferred_can_lead(context, partition):
        return None
    isr = [] if led is None else list(led.state.isr)
    return Refusal(
        ErrorCode.preferred_leader_not_available,
        f"broker {replicas[0]} is not alive and in sync (isr={isr})",
    )


def _unclean_refusal(context: Context, partition: TopicPartition) -> Refusal | None:
    led = context.led.get(partition)
    if led is not None and context.is_online(led.state.leader, partition):
        return NOT_NEEDED
    replicas = context.assignment(partition).replicas
    if any(context.is_available(broker, partition) for broker in replicas):
        return None
    return Refusal(
        ErrorCode.eligible_leaders_not_available, f"none of brokers {list(replicas)} is alive"
    )


NOT_NEEDED: Final = Refusal(ErrorCode.election_not_needed, None)
_UNKNOWN: Final = Refusal(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
_DELETED: Final = Refusal(ErrorCode.invalid_topic_exception, "The topic is being deleted.")
