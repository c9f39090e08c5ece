"""DeleteRecords (21): moves the start of a log up, so that what is before it is gone."""

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.dispatch import Call
from barnabas.server.metadata import is_internal
from barnabas.wire.schema import NO_THROTTLE


def handle(broker: Broker, request: DeleteRecordsRequest, _: Call) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    _partition(broker, topic.name, asked) for asked in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _partition(
    broker: Broker, topic: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    low_watermark, code = -1, ErrorCode.none
    try:
        if is_internal(topic):
            raise BrokerError(ErrorCode.invalid_topic_exception)
        leader = broker.replicas.leader(topic, asked.partition_index)
        if not leader.log.config.deletes:
            raise BrokerError(ErrorCode.policy_violation)
        leader.delete_records_before(asked.offset)
        low_watermark = leader.low_watermark
    except BrokerError as e:
        code = e.code
    except DiskFault as fault:
        broker.disk_failed(fault)
        code = ErrorCode.kafka_storage_error
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=low_watermark, error_code=code
    )
