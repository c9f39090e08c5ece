"""What a broker's answer means for the controller: the event it returns as, if any."""

import logging
from collections.abc import Mapping

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.events import (
    ControllerChanged,
    Event,
    ReplicasAnswered,
    ReplicasDeleted,
)
from barnabas.controller.io.request_batch import ControlRequest
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.control.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.wire.schema import Message

log = logging.getLogger("barnabas.controller.channels")


def decide_event(broker: BrokerId, request: ControlRequest, answer: Message) -> Event | None:
    """What the controller has to look at, now that `broker` gave this answer."""
    if answer.error_code is not ErrorCode.none:
        log.warning(
            "broker refuses request=%s broker=%d error=%s",
            request.key.name,
            broker,
            answer.error_code.name,
        )
    if answer.error_code is ErrorCode.stale_controller_epoch:
        return ControllerChanged()
    if answer.error_code is ErrorCode.stale_broker_epoch:
        # It has registered anew, which is an event of its own. What this request was for is asked
        # for again then, and must not be taken for refused if this answer is looked at later.
        return None
    match request.key:
        case ApiKey.LEADER_AND_ISR:
            failed = _failed(request.message, answer)
            return ReplicasAnswered(broker, failed) if failed else None
        case ApiKey.STOP_REPLICA:
            codes = _deleted(request.message, answer)
            return ReplicasDeleted(broker, codes) if codes else None
    return None


def _failed(
    request: LeaderAndIsrRequest, answer: LeaderAndIsrResponse
) -> Mapping[TopicPartition, ErrorCode]:
    names = {each.topic_id: each.topic_name for each in request.topic_states}
    return {
        TopicPartition(names[topic.topic_id], each.partition_index): each.error_code
        for topic in answer.topics
        if topic.topic_id in names
        for each in topic.partition_errors
        if each.error_code is not ErrorCode.none
    }


def _deleted(
    request: StopReplicaRequest, answer: StopReplicaResponse
) -> Mapping[TopicPartition, ErrorCode]:
    """For each replica that was to be deleted, whether it was."""
    whole = answer.error_code
    said = {
        TopicPartition(each.topic_name, each.partition_index): each.error_code
        for each in answer.partition_errors
    }
    return {
        partition: said.get(partition, whole) if whole is ErrorCode.none else whole
        for topic in request.topic_states
        for state in topic.partition_states
        if state.delete_partition
        for partition in [TopicPartition(topic.topic_name, state.partition_index)]
    }
