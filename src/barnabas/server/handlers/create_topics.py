"""CreateTopics (19): each topic on its own, so one bad name does not fail the others.

Version notes. Version 0 cannot only validate, and has no error messages. From version 4 -1 asks for
the broker's default number of partitions and replicas; from 5 the response describes the topic with
its configs; from 7 it has the topic's id.
"""

import asyncio
from collections import Counter
from typing import Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.server.broker import Broker
from barnabas.server.cluster.topic_admin import NewTopic
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE, milliseconds

CLUSTER_METADATA: Final = "__cluster_metadata"


async def handle(broker: Broker, request: CreateTopicsRequest, _: Call) -> CreateTopicsResponse:
    named = Counter(topic.name for topic in request.topics)
    results = [
        await _create(broker, topic, named[topic.name], request.validate_only)
        for topic in request.topics
    ]
    if not request.validate_only:
        timeout_ms = milliseconds(request.timeout)
        results = await asyncio.gather(*(_awaited(broker, each, timeout_ms) for each in results))
    return CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=tuple(results))


async def _awaited(
    broker: Broker, result: CreatableTopicResult, timeout_ms: int
) -> CreatableTopicResult:
    """The result when all partitions have leaders, or when the client's patience ends."""
    if result.error_code is not ErrorCode.none:
        return result
    try:
        await broker.topics.led(result.name, result.num_partitions, timeout_ms)
    except BrokerError as e:
        return _failed(result.name, e.code, e.message)
    return result


async def _create(
    broker: Broker, topic: CreatableTopic, times_named: int, validate_only: bool
) -> CreatableTopicResult:
    try:
        if times_named > 1:
            raise BrokerError(ErrorCode.invalid_request, "Found multiple entries for this topic.")
        broker.check_controller()
        made = await broker.topics.create(_wanted(broker, topic), validate_only=validate_only)
    except BrokerError as e:
        return _failed(topic.name, e.code, e.message)
    overrides = {config.name: config.value or "" for config in topic.configs}
    return CreatableTopicResult(
        name=topic.name,
        topic_id=made.topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(made.assignment),
        replication_factor=len(made.assignment[0]),
        configs=tuple(
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=int(entry.source),
                is_sensitive=entry.sensitive,
            )
            for entry in broker.configs.describe_overrides(overrides)
        ),
    )


def _wanted(broker: Broker, topic: CreatableTopic) -> NewTopic:
    if topic.name == CLUSTER_METADATA:
        raise BrokerError(
            ErrorCode.invalid_request, f"Creation of internal topic {topic.name} is prohibited."
        )
    broker.topics.check_absent(topic.name)
    if nulls := [config.name for config in topic.configs if config.value is None]:
        raise BrokerError(
            ErrorCode.invalid_config,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    if topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
        raise BrokerError(
            ErrorCode.invalid_request,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={
            wanted.partition_index: tuple(BrokerId(b) for b in wanted.broker_ids)
            for wanted in topic.assignments
        },
        overrides={config.name: config.value for config in topic.configs},
    )


def _failed(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=None,
        error_code=code,
        error_message=message,
        topic_config_error_code=0,
        configs=(),
    )
