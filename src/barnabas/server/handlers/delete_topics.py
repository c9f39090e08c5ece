"""DeleteTopics (20): topics go, with their data.

Version notes. Up to version 5 topics are a list of names; from 6 each is named or given by id.
Before version 3 clients do not know TOPIC_DELETION_DISABLED and get INVALID_REQUEST.
"""

import asyncio
import uuid
from dataclasses import replace
from typing import Final

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.access import check
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.mutation_quota import Mutations
from barnabas.wire.schema import milliseconds

# A deletion writes to the coordination tree: a few of them for each turn of the loop.
_WEIGHT: Final = 20


async def handle(broker: Broker, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    mutations, turns = Mutations(call, strict_since=5), Turns()
    asked: list[tuple[str | None, uuid.UUID | None]]
    if call.version >= 6:
        asked = await turns.listed((topic.name, topic.topic_id) for topic in request.topics)
    else:
        asked = [(name, None) for name in call.sent.topic_names]
    timeout_ms = milliseconds(request.timeout)
    results = [
        await _delete(broker, name, topic_id, call, mutations)
        async for name, topic_id in turns.each(asked, _WEIGHT)
    ]
    gone = await turns.listed(
        asyncio.ensure_future(_gone(broker, each, timeout_ms))
        for each in results
        if each.error_code is ErrorCode.none
    )
    deleted = iter(await asyncio.gather(*gone))
    responses = [next(deleted) if each.error_code is ErrorCode.none else each for each in results]
    return DeleteTopicsResponse(throttle_time=mutations.throttle_time(), responses=tuple(responses))


async def _delete(
    broker: Broker, name: str | None, topic_id: uuid.UUID | None, call: Call, mutations: Mutations
) -> DeletableTopicResult:
    code, message = ErrorCode.none, None
    asked_id = topic_id
    try:
        broker.check_controller()
        broker.topics.check_deletion_enabled()
        name, topic_id = _resolve(broker, name, topic_id, call)
        image = broker.metadata.topic(name)
        mutations.take(0 if image is None else len(image.partitions))
        await broker.topics.delete(name, asked_id)
    except BrokerError as e:
        code, message = e.code, e.message
        if code is ErrorCode.topic_deletion_disabled and call.version < 3:
            code = ErrorCode.invalid_request
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=code, error_message=message
    )


async def _gone(
    broker: Broker, result: DeletableTopicResult, timeout_ms: int
) -> DeletableTopicResult:
    """The result when nobody sees the topic any more, or when the client's patience ends."""
    try:
        await broker.topics.gone(result.name, result.topic_id, timeout_ms)
    except BrokerError as e:
        return replace(result, error_code=e.code)
    return result


def _resolve(
    broker: Broker, name: str | None, topic_id: uuid.UUID | None, call: Call
) -> tuple[str, uuid.UUID | None]:
    if (name is None) == (topic_id is None):
        raise BrokerError(
            ErrorCode.invalid_request, "Topic name and topic ID can not both be specified."
        )
    if topic_id is not None:
        image = broker.metadata.topic_by_id(topic_id)
        if image is None or not call.access.may(Operation.DESCRIBE, ResourceType.TOPIC, image.name):
            raise BrokerError(ErrorCode.unknown_topic_id)
        check(call.access, Operation.DELETE, ResourceType.TOPIC, image.name)
    else:
        check(call.access, Operation.DELETE, ResourceType.TOPIC, name or "")
        image = broker.metadata.topic(name or "")
        if image is None:
            raise BrokerError(ErrorCode.unknown_topic_or_partition)
    return image.name, image.topic_id
