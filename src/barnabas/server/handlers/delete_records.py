"""DeleteRecords (21): moves the log start up, which deletes all records before it.

The response waits until the logs of all living replicas begin there. Followers receive the new
start with their next fetch, and report it with the one after that.
"""

from collections.abc import Awaitable

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import Offset, TopicPartition
from barnabas.server.broker import Broker
from barnabas.server.cluster.metadata_cache import is_internal
from barnabas.server.delayed.delayed_delete_records import DelayedDeleteRecords, Deletion
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE, milliseconds


def handle(
    broker: Broker, delayed: Delayed, request: DeleteRecordsRequest, _: Call
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    deletions = {
        TopicPartition(topic.name, asked.partition_index): _delete(broker, topic.name, asked)
        for topic in request.topics
        for asked in topic.partitions
    }
    for partition, deletion in deletions.items():
        if deletion.code is None:
            delayed.on_log_start(partition)
    operation = DelayedDeleteRecords(broker.replicas, list(deletions.values()))
    timeout_ms = milliseconds(request.timeout)
    if delayed.deletions.try_complete_else_watch(operation, deletions, timeout_ms):
        return _response(request, deletions)

    async def later() -> DeleteRecordsResponse:
        await operation.done
        return _response(request, deletions)

    return later()


def _delete(broker: Broker, topic: str, asked: DeleteRecordsPartition) -> Deletion:
    """Move the start of the leader's own log."""
    try:
        if is_internal(topic):
            raise BrokerError(ErrorCode.invalid_topic_exception)
        leader = broker.replicas.leader(topic, asked.partition_index)
        if not leader.log.config.deletes:
            raise BrokerError(ErrorCode.policy_violation)
        return Deletion(leader, leader.delete_records_before(asked.offset))
    except BrokerError as e:
        return Deletion(None, Offset(-1), e.code)
    except DiskFault as fault:
        broker.failures.disk_failed(fault)
        return Deletion(None, Offset(-1), ErrorCode.kafka_storage_error)


def _response(
    request: DeleteRecordsRequest, deletions: dict[TopicPartition, Deletion]
) -> DeleteRecordsResponse:
    def result(partition: TopicPartition) -> DeleteRecordsPartitionResult:
        deletion = deletions[partition]
        return DeleteRecordsPartitionResult(
            partition_index=partition.partition,
            low_watermark=deletion.low_watermark,
            error_code=deletion.code or ErrorCode.none,
        )

    return DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    result(TopicPartition(topic.name, asked.partition_index))
                    for asked in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
