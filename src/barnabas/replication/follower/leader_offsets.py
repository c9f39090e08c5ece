"""ListOffsets from a follower to its leader, after its own log end was out of range there."""

from typing import Final, cast

from kio.schema.list_offsets.v9.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.list_offsets.v9.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import Offset
from barnabas.client.connection import AsyncConnection
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.wire.apis import ApiKey

VERSION: Final = 9
LATEST: Final = -1
EARLIEST: Final = -2
_READ_UNCOMMITTED: Final = i8(0)


async def ask_offset(
    peer: AsyncConnection, follower: FollowerReplica, timestamp: int, timeout_s: float
) -> Offset:
    """Return the leader's log end (LATEST) or log start (EARLIEST), as a replica sees it.

    Raises  BrokerError with the leader's error, PeerGone
    """
    topic, partition = follower.topic_partition
    asked = ListOffsetsPartition(
        partition_index=i32(partition),
        current_leader_epoch=i32(follower.epoch),
        timestamp=i64(timestamp),
    )
    request = ListOffsetsRequest(
        replica_id=BrokerId(i32(follower.broker_id)),
        isolation_level=_READ_UNCOMMITTED,
        topics=(ListOffsetsTopic(name=TopicName(topic), partitions=(asked,)),),
    )
    response = await peer.request(ApiKey.LIST_OFFSETS, VERSION, request, timeout_s)
    for answered in cast(ListOffsetsResponse, response).topics:
        for told in answered.partitions:
            if (answered.name, told.partition_index) == (topic, partition):
                if told.error_code is not ErrorCode.none:
                    raise BrokerError(told.error_code)
                return Offset(told.offset)
    raise BrokerError(ErrorCode.unknown_server_error, "the leader responded for another partition")
