"""DeleteRecords (21): moves the log start up, which deletes all records before it.

The response waits until the logs of all living replicas begin there. Followers receive the new
start with their next fetch, and report it with the one after that.
"""

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import Offset, TopicPartition
from barnabas.base.turns import Turns
from barnabas.server.broker import Broker
from barnabas.server.cluster.metadata_cache import is_internal
from barnabas.server.delayed.delayed_delete_records import DelayedDeleteRecords, Deletion
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE, milliseconds


async def handle(
    broker: Broker, delayed: Delayed, request: DeleteRecordsRequest, _: Call
) -> DeleteRecordsResponse:
    turns = Turns()
    deletions = dict(
        await turns.listed(
            _deletion(broker, delayed, topic.name, asked)
            for topic in request.topics
            for asked in topic.partitions
        )
    )
    # Others change on their own account, and would all look at this request.
    waiting = {each: of for each, of in deletions.items() if of.code is None}
    operation = DelayedDeleteRecords(broker.replicas, waiting.values())
    timeout_ms = milliseconds(request.timeout)
    if not delayed.deletions.try_complete_else_watch(operation, waiting, timeout_ms):
        await operation.done
    return await _response(request, deletions, turns)


def _deletion(
    broker: Broker, delayed: Delayed, topic: str, asked: DeleteRecordsPartition
) -> tuple[TopicPartition, Deletion]:
    """Move the start of the leader's own log; followers move theirs when they fetch."""
    partition = TopicPartition(topic, asked.partition_index)
    deletion = _delete(broker, partition, asked.offset)
    if deletion.code is None:
        delayed.on_log_start(partition)
    return partition, deletion


def _delete(broker: Broker, partition: TopicPartition, offset: int) -> Deletion:
    try:
        if is_internal(partition.topic):
            raise BrokerError(ErrorCode.invalid_topic_exception)
        leader = broker.replicas.leader(*partition)
        if not leader.log.config.deletes:
            raise BrokerError(ErrorCode.policy_violation)
        return Deletion(leader, leader.delete_records_before(offset))
    except BrokerError as e:
        return Deletion(None, Offset(-1), e.code)
    except DiskFault as fault:
        broker.failures.disk_failed(fault)
        return Deletion(None, Offset(-1), ErrorCode.kafka_storage_error)


async def _response(
    request: DeleteRecordsRequest, deletions: dict[TopicPartition, Deletion], turns: Turns
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
            [
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        await turns.listed(
                            result(TopicPartition(topic.name, asked.partition_index))
                            for asked in topic.partitions
                        )
                    ),
                )
                for topic in request.topics
            ]
        ),
    )
