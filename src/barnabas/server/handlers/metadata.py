"""Metadata (3): brokers, topics and leaders; may create a topic that a client names first.

Version notes. In version 0 an empty list of topics asks for all; later a null list does and
an empty one asks for none. Auto creation can be declined from version 4. Responses hold topic ids
from 10, and a request may name a topic by id from 12. From 8 to 10 a client may ask for its
authorized operations in the cluster; later it sends DescribeCluster.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import in_turns
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.cluster.metadata_cache import TopicImage, is_internal
from barnabas.server.cluster.topic_creation import Made, NewTopic
from barnabas.server.cluster.topic_names import check_topic_name
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC
from barnabas.server.requests.access import authorized_operations, cluster_operations
from barnabas.server.requests.dispatch import Call
from barnabas.server.transactions.transaction_topic import TRANSACTION_TOPIC
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import NO_THROTTLE, adapt, response_type

log = logging.getLogger("barnabas.topics")

# How long a client waits for the leaders of topics it named first; then it asks again.
AUTO_CREATION_MS: Final = 1000
# Not known to clients as an error of a topic.
_RETRIED: Final = {ErrorCode.request_timed_out: ErrorCode.leader_not_available}
# Topics and partitions described before other requests get their turn.
_AT_ONCE: Final = 1000


def handle(
    broker: Broker, request: MetadataRequest, call: Call
) -> MetadataResponse | Awaitable[MetadataResponse]:
    asked = request.topics
    if asked is None or (call.version == 0 and not asked):
        known = (
            _known(broker, topic, call)
            for topic in broker.metadata.topics()
            if _may_describe(call, topic.name, log_if_denied=False)
        )
        return _respond(broker, request, call, known)
    if call.version < 12 and any(t.topic_id is not None or t.name is None for t in asked):
        return _response(broker, request, call, map(_not_by_id, asked))
    # A topic that is named twice is in the response once.
    if len(asked) <= _AT_ONCE:
        return _respond_named(broker, request, call, tuple(dict.fromkeys(asked)))

    async def respond() -> MetadataResponse:
        once = {topic: None async for topic in in_turns(asked)}
        response = _respond_named(broker, request, call, tuple(once))
        return await response if inspect.isawaitable(response) else response

    return respond()


def _respond_named(
    broker: Broker,
    request: MetadataRequest,
    call: Call,
    asked: tuple[MetadataRequestTopic, ...],
) -> MetadataResponse | Awaitable[MetadataResponse]:
    may_create = request.allow_auto_topic_creation and broker.configs.broker.bool(
        "auto.create.topics.enable"
    )
    if may_create and any(_is_missing(broker, topic, call) for topic in asked):
        return _create_and_respond(broker, request, asked, call)
    found = (_lookup(broker, topic, call) for topic in asked)
    return _respond(broker, request, call, found)


def _respond(
    broker: Broker,
    request: MetadataRequest,
    call: Call,
    topics: Iterator[MetadataResponseTopic],
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """The response at once or, with many partitions, in several turns of the loop."""
    described: list[MetadataResponseTopic] = []
    if _take_some(topics, described):
        return _response(broker, request, call, described)

    async def respond() -> MetadataResponse:
        await asyncio.sleep(0)
        return _response(broker, request, call, described + await _in_turns(topics))

    return respond()


def _take_some(
    topics: Iterator[MetadataResponseTopic], described: list[MetadataResponseTopic]
) -> bool:
    """Describe topics until they have many partitions; returns whether these are all."""
    weight = 0
    for topic in topics:
        described.append(topic)
        weight += 1 + len(topic.partitions)
        if weight >= _AT_ONCE:
            return False
    return True


async def _in_turns(topics: Iterator[MetadataResponseTopic]) -> list[MetadataResponseTopic]:
    described: list[MetadataResponseTopic] = []
    while True:
        if _take_some(topics, described):
            return described
        await asyncio.sleep(0)


async def _create_and_respond(
    broker: Broker,
    request: MetadataRequest,
    asked: tuple[MetadataRequestTopic, ...],
    call: Call,
) -> MetadataResponse:
    """Create missing topics, as many as one request may; the client asks again for the others."""
    missing: list[str] = []
    refused: list[str] = []
    async for topic in in_turns(asked):
        if _is_missing(broker, topic, call):
            name = topic.name or ""
            (missing if _may_create(call, name) else refused).append(name)
    most = broker.configs.broker.int("barnabas.auto.create.topics.max.per.request")
    failed = dict.fromkeys(missing[most:], ErrorCode.leader_not_available)
    failed |= dict.fromkeys(refused, ErrorCode.topic_authorization_failed)
    failed |= await _create(broker, missing[:most])
    if most < len(missing):
        log.info("topics left to later requests count=%d limit=%d", len(missing) - most, most)
    topics = await _in_turns(
        _failed(topic, failed[topic.name])
        if topic.topic_id is None and topic.name in failed
        else _lookup(broker, topic, call)
        for topic in asked
    )
    return _response(broker, request, call, topics)


async def _create(broker: Broker, names: Sequence[str]) -> dict[str, ErrorCode]:
    """Create topics, unless another client does at this moment, and wait until they are led.

    Returns the errors of those that cannot be used. LEADER_NOT_AVAILABLE lets a client ask again:
    every client retries on it, and none reports it to its user.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + AUTO_CREATION_MS / 1000
    failed: dict[str, ErrorCode] = {}
    wanted: dict[str, NewTopic] = {}
    for name in names:
        try:
            wanted[name] = _new_topic(broker, name)
        except BrokerError:  # more brokers may join first
            failed[name] = ErrorCode.leader_not_available
    created = await broker.topics.create_all(
        list(wanted.values()), validate_only=False, within_ms=AUTO_CREATION_MS
    )
    expected: dict[str, int] = {}
    for name, made in zip(wanted, created, strict=True):
        if isinstance(made, Made):
            expected[name] = len(made.assignment)
        elif made.code is ErrorCode.topic_already_exists:
            expected[name] = 1
        else:
            failed[name] = _RETRIED.get(made.code, made.code)
    left_ms = max(0, round((end - loop.time()) * 1000))
    unled = await broker.topics.unled(expected, left_ms)
    return failed | dict.fromkeys(unled, ErrorCode.leader_not_available)


def _new_topic(broker: Broker, name: str) -> NewTopic:
    """The topic to create; internal ones as their coordinators want them."""
    if name == OFFSETS_TOPIC:
        return broker.groups.new_topic()
    if name == TRANSACTION_TOPIC:
        return broker.transactions.new_topic()
    return NewTopic(name)


def _may_describe(call: Call, name: str, *, log_if_denied: bool = True) -> bool:
    return call.access.may(
        Operation.DESCRIBE, ResourceType.TOPIC, name, log_if_denied=log_if_denied
    )


def _may_create(call: Call, name: str) -> bool:
    return call.access.may(
        Operation.CREATE, ResourceType.CLUSTER, log_if_denied=False
    ) or call.access.may(Operation.CREATE, ResourceType.TOPIC, name)


def _is_missing(broker: Broker, topic: MetadataRequestTopic, call: Call) -> bool:
    return (
        topic.topic_id is None
        and topic.name is not None
        and broker.metadata.topic(topic.name) is None
        and _may_describe(call, topic.name, log_if_denied=False)
    )


def _lookup(broker: Broker, topic: MetadataRequestTopic, call: Call) -> MetadataResponseTopic:
    if topic.topic_id is not None:
        image = broker.metadata.topic_by_id(topic.topic_id)
        if image is None or not _may_describe(call, image.name):
            return _failed(topic, ErrorCode.unknown_topic_id)
        return _known(broker, image, call)
    if not _may_describe(call, topic.name or ""):
        return _failed(topic, ErrorCode.topic_authorization_failed)
    image = broker.metadata.topic(topic.name or "")
    if image is not None:
        return _known(broker, image, call)
    try:
        check_topic_name(topic.name or "")
    except BrokerError as e:
        return _failed(topic, e.code)
    if not broker.metadata.is_complete:  # it may exist, and a client must not give it up
        return _failed(topic, ErrorCode.leader_not_available)
    return _failed(topic, ErrorCode.unknown_topic_or_partition)


def _failed(topic: MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic:
    name = topic.name if topic.topic_id is None else None
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic.topic_id,
        is_internal=is_internal(name or ""),
        partitions=(),
    )


def _not_by_id(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    """Refuse the request: these versions allow no null topic name in a response."""
    return MetadataResponseTopic(
        error_code=ErrorCode.invalid_request,
        name=topic.name or "",
        topic_id=topic.topic_id,
        partitions=(),
    )


def _known(broker: Broker, topic: TopicImage, call: Call) -> MetadataResponseTopic:
    cache = broker.metadata
    return MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            MetadataResponsePartition(
                error_code=cache.error_of(partition, call.connection.listener),
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                offline_replicas=cache.replicas_gone(partition),
            )
            for index, partition in topic.partitions.items()
        ),
    )


def _response(
    broker: Broker, request: MetadataRequest, call: Call, topics: Iterable[MetadataResponseTopic]
) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        topics = [
            replace(
                t,
                topic_authorized_operations=authorized_operations(
                    call.access, ResourceType.TOPIC, t.name or ""
                ),
            )
            if t.error_code is ErrorCode.none
            else t
            for t in topics
        ]
    response = MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=tuple(
            MetadataResponseBroker(node_id=b.broker_id, host=host, port=port, rack=b.rack)
            for b in broker.metadata.brokers_on(call.connection.listener)
            for host, port in [b.endpoint(call.connection.listener)]
        ),
        cluster_id=broker.metadata.cluster_id,
        controller_id=broker.metadata.controller,
        topics=tuple(topics),
    )
    if getattr(call.sent, "include_cluster_authorized_operations", False):
        operations = cluster_operations(call.access)
        until_10 = adapt(response, response_type(ApiKey.METADATA, 10))
        return replace(until_10, cluster_authorized_operations=operations)
    return response
