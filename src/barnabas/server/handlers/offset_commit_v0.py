"""OffsetCommit (8) version 0, of Kafka 0.8.1: commits offsets to the coordination tree.

Later versions commit to `__consumer_offsets`: see `offset_commit`.
"""

from typing import Final

from kio.schema.offset_commit.v9.request import OffsetCommitRequest, OffsetCommitRequestPartition
from kio.schema.offset_commit.v9.response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.turns import Turns
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

# A commit writes to the coordination tree: a few of them for each turn of the loop.
_WEIGHT: Final = 20


async def handle(broker: Broker, request: OffsetCommitRequest, _: Call) -> OffsetCommitResponse:
    topics, turns = [], Turns()
    async for topic in turns.each(request.topics):
        codes = [
            (each.partition_index, await _commit(broker, request.group_id, topic.name, each))
            async for each in turns.each(topic.partitions, _WEIGHT)
        ]
        partitions = tuple(
            OffsetCommitResponsePartition(partition_index=index, error_code=code)
            for index, code in codes
        )
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


async def _commit(
    broker: Broker, group_id: str, topic: str, commit: OffsetCommitRequestPartition
) -> ErrorCode:
    partition = TopicPartition(topic, commit.partition_index)
    if not broker.metadata.has_partition(*partition):
        return ErrorCode.unknown_topic_or_partition
    limit = broker.configs.broker.int("offset.metadata.max.bytes")
    if len(commit.committed_metadata or "") > limit:
        return ErrorCode.offset_metadata_too_large
    try:
        await broker.tree_offsets.commit(group_id, partition, commit.committed_offset)
    except BrokerError as e:
        return e.code
    return ErrorCode.none
