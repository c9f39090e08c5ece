"""AlterPartition requests: whether the ISR that a leader requests is granted, as in Kafka."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Context, PartitionLeadership
from barnabas.controller.events import RequestedIsr
from barnabas.znodes.layout import LeaderAndIsr


class IsrDecision(NamedTuple):
    """The states to write, with their expected versions, and the answers that need no write."""

    updates: dict[TopicPartition, tuple[LeaderAndIsr, int]]
    answers: dict[TopicPartition, ErrorCode | PartitionLeadership]


def decide_isr_changes(
    context: Context, leader: BrokerId, requests: Mapping[TopicPartition, RequestedIsr]
) -> IsrDecision:
    """Grant a request of the current leader for the current version, if all of the ISR is alive."""
    decided = IsrDecision({}, {})
    for partition, requested in requests.items():
        leadership = context.leadership.get(partition)
        if leadership is None:
            decided.answers[partition] = ErrorCode.unknown_topic_or_partition
            continue
        answer = _answer(context, leadership, leader, requested)
        if answer is not None:
            decided.answers[partition] = answer
        else:
            state = replace(
                leadership.state,
                isr=requested.isr,
                recovering=requested.recovering,
                controller_epoch=context.epoch,
            )
            decided.updates[partition] = (state, leadership.version)
    return decided


def _answer(
    context: Context, leadership: PartitionLeadership, leader: BrokerId, requested: RequestedIsr
) -> ErrorCode | PartitionLeadership | None:
    """The answer that needs no write; None if the requested ISR is to be written."""
    leader_epoch, partition_epoch, isr, recovering = requested
    if leader_epoch > leadership.state.leader_epoch or partition_epoch > leadership.version:
        # The leader knows a newer state than we do: we are no longer the controller.
        return ErrorCode.not_controller
    if leader_epoch < leadership.state.leader_epoch or leader != leadership.state.leader:
        return ErrorCode.fenced_leader_epoch
    if (isr, recovering) == (leadership.state.isr, leadership.state.recovering):
        # Granted before and the response was lost: repeat it, whatever the partition epoch is.
        return leadership
    if partition_epoch < leadership.version:
        return ErrorCode.invalid_update_version
    if not isr or (recovering and (len(isr) > 1 or not leadership.state.recovering)):
        return ErrorCode.invalid_request
    if any(broker not in context.available() for broker in isr):
        return ErrorCode.ineligible_replica
    return None
