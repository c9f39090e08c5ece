"""Elections requested by an operator: of the preferred leader, or an unclean one."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Context
from barnabas.controller.decide.leader_balancing import preferred_can_lead
from barnabas.controller.decide.steps import (
    ApiError,
    MovePartitions,
    Steps,
)
from barnabas.controller.states import PartitionState, Selector


class Elections(NamedTuple):
    """The steps to perform, and the errors of the partitions that need none."""

    steps: Steps
    answers: dict[TopicPartition, ApiError]


def decide_elections(
    context: Context, partitions: Iterable[TopicPartition] | None, by: Selector
) -> Elections:
    """Elect with PREFERRED, or with OFFLINE_UNCLEAN where no leader is online.

    None elects for all partitions; the result then omits those that need no election.
    """
    asked = context.partitions() if partitions is None else partitions
    answers: dict[TopicPartition, ApiError] = {}
    elect: list[TopicPartition] = []
    for partition in dict.fromkeys(asked):
        refusal = _refusal(context, partition, by)
        if refusal is None:
            elect.append(partition)
        elif partitions is not None or refusal not in (NOT_NEEDED, _DELETED):
            answers[partition] = refusal
    steps = (MovePartitions(tuple(elect), PartitionState.ONLINE, by),) if elect else ()
    return Elections(steps, answers)


def _refusal(context: Context, partition: TopicPartition, by: Selector) -> ApiError | None:
    if partition not in context:
        return _UNKNOWN
    if context.is_deleting(partition.topic):
        return _DELETED
    if by is Selector.PREFERRED:
        return _preferred_refusal(context, partition)
    return _unclean_refusal(context, partition)


def _preferred_refusal(context: Context, partition: TopicPartition) -> ApiError | None:
    leadership = context.leadership.get(partition)
    replicas = context.assignment(partition).replicas
    if leadership is not None and leadership.state.leader == replicas[0]:
        return NOT_NEEDED
    if preferred_can_lead(context, partition):
        return None
    isr = [] if leadership is None else list(leadership.state.isr)
    return ApiError(
        ErrorCode.preferred_leader_not_available,
        f"broker {replicas[0]} is not alive and in sync (isr={isr})",
    )


def _unclean_refusal(context: Context, partition: TopicPartition) -> ApiError | None:
    leadership = context.leadership.get(partition)
    if leadership is not None and context.is_online(leadership.state.leader, partition):
        return NOT_NEEDED
    replicas = context.assignment(partition).replicas
    if any(context.is_available(broker, partition) for broker in replicas):
        return None
    return ApiError(
        ErrorCode.eligible_leaders_not_available, f"none of brokers {list(replicas)} is alive"
    )


NOT_NEEDED: Final = ApiError(ErrorCode.election_not_needed, None)
_UNKNOWN: Final = ApiError(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
_DELETED: Final = ApiError(ErrorCode.invalid_topic_exception, "The topic is being deleted.")
