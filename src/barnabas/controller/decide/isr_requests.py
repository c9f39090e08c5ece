"""Whether a leader's wish for another ISR can be granted, as Kafka's controller decides it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Context, Led
from barnabas.controller.events import IsrWish
from barnabas.znodes.layout import PartitionState as Leading


class Isrs(NamedTuple):
    """What to write, with the version expected, and what is answered without it."""

    updates: dict[TopicPartition, tuple[Leading, int]]
    answers: dict[TopicPartition, ErrorCode | Led]


def decide_isrs(
    context: Context, leader: BrokerId, wishes: Mapping[TopicPartition, IsrWish]
) -> Isrs:
    """Grant what the newest leader asks for on what is so now, if all of the ISR is alive."""
    decided = Isrs({}, {})
    for partition, wish in wishes.items():
        led = context.led.get(partition)
        if led is None:
            decided.answers[partition] = ErrorCode.unknown_topic_or_partition
            continue
        answer = _answer(context, led, leader, wish)
        if answer is not None:
            decided.answers[partition] = answer
        else:
            state = replace(
                led.state,
                isr=wish.isr,
                recovering=wish.recovering,
                controller_epoch=context.epoch,
            )
            decided.updates[partition] = (state, led.version)
    return decided


def _answer(context: Context, led: Led, leader: BrokerId, wish: IsrWish) -> ErrorCode | Led | None:
    """What is answered at once; None if the wish is to be written."""
    leader_epoch, partition_epoch, isr, recovering = wish
    if leader_epoch > led.state.leader_epoch or partition_epoch > led.version:
        # It has heard of more than we have: then we are not the controller any more.
        return ErrorCode.not_controller
    if leader_epoch < led.state.leader_epoch or leader != led.state.leader:
        return ErrorCode.fenced_leader_epoch
    if (isr, recovering) == (led.state.isr, led.state.recovering):
        # Granted before, and the answer was lost: said again whatever the partition epoch is.
        return led
    if partition_epoch < led.version:
        return ErrorCode.invalid_update_version
    if not isr or (recovering and (len(isr) > 1 or not led.state.recovering)):
        return ErrorCode.invalid_request
    if any(broker not in context.available() for broker in isr):
        return ErrorCode.ineligible_replica
    return None
