"""AlterReplicaLogDirs (34): moves replicas of this broker to other log directories.

The response says whether a move could begin; DescribeLogDirs shows how far it is. A replica that is
not here yet is created in that log directory later, though the response is REPLICA_NOT_AVAILABLE.
"""

import logging

from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

log = logging.getLogger("barnabas.moves")


def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, _: Call
) -> AlterReplicaLogDirsResponse:
    codes: dict[str, dict[int, ErrorCode]] = {}
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            for index in topic.partitions:
                code = _alter(broker, TopicPartition(topic.name, index), log_dir.path)
                codes.setdefault(topic.name, {})[index] = code
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


def _alter(broker: Broker, partition: TopicPartition, log_dir: str) -> ErrorCode:
    try:
        broker.moves.alter(partition, log_dir)
    except BrokerError as e:
        log.info("replica not moved partition=%s to=%s why=%s", partition, log_dir, e)
        return e.code
    except DiskFault as fault:
        broker.failures.disk_failed(fault)
        return ErrorCode.kafka_storage_error
    return ErrorCode.none
