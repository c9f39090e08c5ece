"""OffsetFetch (9) version 0, of Kafka 0.8.1: the offsets committed to the coordination tree.

Later versions fetch from the group's coordinator: see `offset_fetch`.
"""

from kio.schema.offset_fetch.v1.request import OffsetFetchRequest
from kio.schema.offset_fetch.v1.response import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.access import Access
from barnabas.server.requests.dispatch import Call


async def handle(broker: Broker, _: object, call: Call) -> OffsetFetchResponse:
    sent: OffsetFetchRequest = call.sent
    topics = []
    for topic in sent.topics:
        partitions = [
            await _fetch(broker, sent.group_id, TopicPartition(topic.name, index), call.access)
            for index in topic.partition_indexes
        ]
        topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=tuple(partitions)))
    return OffsetFetchResponse(topics=tuple(topics))


async def _fetch(
    broker: Broker, group_id: str, partition: TopicPartition, access: Access
) -> OffsetFetchResponsePartition:
    offset, code = None, ErrorCode.none
    if not access.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        code = ErrorCode.group_authorization_failed
    elif not access.may(Operation.DESCRIBE, ResourceType.TOPIC, partition.topic):
        code = ErrorCode.topic_authorization_failed
    elif broker.metadata.has_partition(*partition):
        try:
            offset = await broker.tree_offsets.fetch(group_id, partition)
        except BrokerError as e:
            code = e.code
    if offset is None and code is ErrorCode.none:
        code = ErrorCode.unknown_topic_or_partition
    return OffsetFetchResponsePartition(
        partition_index=partition.partition,
        committed_offset=-1 if offset is None else offset,
        metadata="",
        error_code=code,
    )
