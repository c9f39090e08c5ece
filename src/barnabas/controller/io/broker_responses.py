"""Broker responses to control requests, as events for the controller."""

import logging
from collections.abc import Mapping

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.events import (
    ControllerChanged,
    Event,
    ReplicasDeleted,
    ReplicasFailed,
)
from barnabas.controller.io.request_batch import ControlRequest
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.control.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.wire.schema import Message

log = logging.getLogger("barnabas.controller.channels")


def decide_event(broker: BrokerId, request: ControlRequest, answer: Message) -> Event | None:
    """The event that a broker's response to a request leads to, or None."""
    if answer.error_code is not ErrorCode.none:
        log.warning(
            "broker refused request=%s broker=%d error=%s",
            request.key.name,
            broker,
            answer.error_code.name,
        )
    if answer.error_code is ErrorCode.stale_controller_epoch:
        return ControllerChanged()
    if answer.error_code is ErrorCode.stale_broker_epoch:
        # The broker has registered again, which is an event of its own and repeats this request.
        # This response, handled after it, must not count as a refusal of the repeated request.
        return None
    match request.key:
        case ApiKey.LEADER_AND_ISR:
            failed = _failed(request.message, answer)
            return ReplicasFailed(broker, failed) if failed else None
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
    """The error code of each replica that the request deletes."""
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
