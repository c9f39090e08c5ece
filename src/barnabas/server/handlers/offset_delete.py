"""OffsetDelete (47): deletes single offsets of a group, but none of subscribed topics."""

from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.groups.offsets.offset_messages import AskedTopic, OffsetsReply
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(broker: Broker, request: OffsetDeleteRequest, _: Call) -> OffsetDeleteResponse:
    asked = [
        AskedTopic(topic.name, [each.partition_index for each in topic.partitions])
        for topic in request.topics
    ]
    try:
        if not request.group_id:
            raise BrokerError(ErrorCode.invalid_group_id)
        reply = await broker.groups.ask(
            request.group_id, lambda shard, _: shard.offsets.delete(request.group_id, asked)
        )
    except BrokerError as e:
        reply = OffsetsReply(error=e.code)
    return OffsetDeleteResponse(
        throttle_time=NO_THROTTLE,
        error_code=reply.error,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=partition, error_code=_code(broker, topic, partition, code)
                    )
                    for partition, code in partitions
                ),
            )
            for topic, partitions in reply.topics
        ),
    )


def _code(broker: Broker, topic: str, partition: int, code: ErrorCode) -> ErrorCode:
    image = broker.metadata.topic(topic)
    if image is None or partition not in image.partitions:
        return ErrorCode.unknown_topic_or_partition
    return code
