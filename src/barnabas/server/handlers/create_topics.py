"""CreateTopics (19): each topic on its own, so one bad name does not fail the others.

Version notes. Version 0 cannot only validate, and has no error messages. From version 4 -1 asks for
the broker's default number of partitions and replicas; from 5 the response describes the topic with
its configs; from 7 it has the topic's id.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.base.turns import in_turns
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.topic_creation import Made, NewTopic
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.mutation_quota import Mutations
from barnabas.wire.schema import milliseconds

CLUSTER_METADATA: Final = "__cluster_metadata"
# Topics described before other requests get their turn.
AT_ONCE: Final = 500


async def handle(broker: Broker, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    mutations = Mutations(call, strict_since=6)
    wanted, failed = await _check(broker, request.topics, mutations)
    created = await broker.topics.create_all(
        list(wanted.values()), validate_only=request.validate_only
    )
    made: dict[str, Made] = {}
    for name, result in zip(wanted, created, strict=True):
        if isinstance(result, BrokerError):
            failed[name] = result
        else:
            made[name] = result
    if not request.validate_only:
        expected = {name: len(each.assignment) for name, each in made.items()}
        unled = await broker.topics.unled(expected, milliseconds(request.timeout))
        failed |= {name: BrokerError(ErrorCode.request_timed_out) for name in unled}
    results = await _results(request.topics, made, failed, _Configs(broker.configs), call)
    return CreateTopicsResponse(throttle_time=mutations.throttle_time(), topics=tuple(results))


async def _results(
    topics: Iterable[CreatableTopic],
    made: Mapping[str, Made],
    failed: Mapping[str, BrokerError],
    configs: "_Configs",
    call: Call,
) -> list[CreatableTopicResult]:
    results = []
    for topic in topics:
        if topic.name in failed:
            error = failed[topic.name]
            results.append(_failed(topic.name, error.code, error.message))
        else:
            results.append(_created(topic, made[topic.name], configs, call))
        if len(results) % AT_ONCE == 0:
            await asyncio.sleep(0)
    return results


async def _check(
    broker: Broker, topics: Iterable[CreatableTopic], mutations: Mutations
) -> tuple[dict[str, NewTopic], dict[str, BrokerError]]:
    """The topics to create, and the errors of the others."""
    wanted: dict[str, NewTopic] = {}
    failed: dict[str, BrokerError] = {}
    named = Counter(topic.name for topic in topics)
    async for topic in in_turns(topics):
        try:
            if named[topic.name] > 1:
                raise BrokerError(
                    ErrorCode.invalid_request, "Found multiple entries for this topic."
                )
            broker.check_controller()
            new = _wanted(broker, topic)
            mutations.take(_count(broker, new))
            wanted[topic.name] = new
        except BrokerError as error:
            failed[topic.name] = error
    return wanted, failed


def _count(broker: Broker, new: NewTopic) -> int:
    if new.assignments:
        return len(new.assignments)
    default = broker.configs.broker.int("num.partitions")
    return default if new.partitions < 0 else new.partitions


class _Configs:
    """The configs in a response: described once for all topics with the same overrides."""

    def __init__(self, configs: Configs) -> None:
        self._configs = configs
        self._described: dict[frozenset[tuple[str, str]], tuple[CreatableTopicConfigs, ...]] = {}

    def of(self, topic: CreatableTopic) -> tuple[CreatableTopicConfigs, ...]:
        overrides = {config.name: config.value or "" for config in topic.configs}
        key = frozenset(overrides.items())
        if key not in self._described:
            self._described[key] = tuple(
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=int(entry.source),
                    is_sensitive=entry.sensitive,
                )
                for entry in self._configs.describe_overrides(overrides)
            )
        return self._described[key]


def _created(
    topic: CreatableTopic, made: Made, configs: _Configs, call: Call
) -> CreatableTopicResult:
    if not call.access.may(
        Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, log_if_denied=False
    ):
        return CreatableTopicResult(
            name=topic.name,
            topic_id=made.topic_id,
            error_code=ErrorCode.none,
            error_message=None,
            topic_config_error_code=int(ErrorCode.topic_authorization_failed),
            configs=(),
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=made.topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(made.assignment),
        replication_factor=len(made.assignment[0]),
        configs=configs.of(topic),
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
