"""AlterReplicaLogDirs (34): moves replicas of this broker to other log directories.

The response says whether a move could begin; DescribeLogDirs shows how far it is. A replica that is
not here yet is created in that log directory later, though the response is REPLICA_NOT_AVAILABLE.
"""

import logging
from collections import Counter
from typing import Final

from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.turns import Turns
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

log = logging.getLogger("barnabas.moves")

# Of a request that names partitions by the thousand, the reasons that are logged.
MOST_REASONS: Final = 5


async def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, _: Call
) -> AlterReplicaLogDirsResponse:
    codes: dict[str, dict[int, ErrorCode]] = {}
    failed: Counter[str] = Counter()
    turns = Turns()
    async for log_dir in turns.each(request.dirs):
        async for topic in turns.each(log_dir.topics):
            async for index in turns.each(topic.partitions):
                code = _alter(broker, TopicPartition(topic.name, index), log_dir.path, failed)
                codes.setdefault(topic.name, {})[index] = code
    for why, count in failed.most_common(MOST_REASONS):
        log.info("replicas not moved count=%d why=%s", count, why)
    return AlterReplicaLogDirsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            AlterReplicaLogDirTopicResult(
                topic_name=topic,
                partitions=tuple(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index, code in partitions.items()
                ),
            )
            for topic, partitions in codes.items()
        ),
    )


def _alter(
    broker: Broker, partition: TopicPartition, log_dir: str, failed: Counter[str]
) -> ErrorCode:
    try:
        broker.moves.alter(partition, log_dir)
    except BrokerError as e:
        failed[str(e)] += 1
        return e.code
    except DiskFault as fault:
        broker.failures.disk_failed(fault)
        return ErrorCode.kafka_storage_error
    return ErrorCode.none
