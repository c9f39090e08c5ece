"""CreatePartitions (37): a topic grows; it never shrinks."""

from collections import Counter
from typing import Final

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.base.turns import Turns
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.mutation_quota import Mutations
from barnabas.wire.schema import milliseconds

# A change reads and writes the coordination tree: a few of them for each turn of the loop.
_WEIGHT: Final = 20


async def handle(
    broker: Broker, request: CreatePartitionsRequest, call: Call
) -> CreatePartitionsResponse:
    mutations, turns = Mutations(call, strict_since=3), Turns()
    named = Counter(topic.name for topic in request.topics)
    results = [
        _result(name, ErrorCode.invalid_request, "Duplicate topic in request.")
        for name, times in named.items()
        if times > 1
    ]
    results += [
        await _grow(broker, topic, request.validate_only, milliseconds(request.timeout), mutations)
        async for topic in turns.each(request.topics, _WEIGHT)
        if named[topic.name] == 1
    ]
    return CreatePartitionsResponse(throttle_time=mutations.throttle_time(), results=tuple(results))


async def _grow(
    broker: Broker,
    topic: CreatePartitionsTopic,
    validate_only: bool,
    timeout_ms: int,
    mutations: Mutations,
) -> CreatePartitionsTopicResult:
    assignments = None
    if topic.assignments is not None:
        assignments = [tuple(BrokerId(b) for b in a.broker_ids) for a in topic.assignments]
    try:
        broker.check_controller()
        image = broker.metadata.topic(topic.name)
        mutations.take(0 if image is None else max(0, topic.count - len(image.partitions)))
        await broker.topics.grow(topic.name, topic.count, assignments, validate_only=validate_only)
        if not validate_only:
            await broker.topics.led(topic.name, topic.count, timeout_ms)
    except BrokerError as e:
        return _result(topic.name, e.code, e.message)
    return _result(topic.name, ErrorCode.none, None)


def _result(name: str, code: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
