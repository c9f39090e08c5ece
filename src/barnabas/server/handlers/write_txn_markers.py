"""WriteTxnMarkers (27): a transaction coordinator ends transactions in partitions that we lead.

Each marker is one append to its partition, as acks=all. The one response leaves when all of them
are committed, or have failed. In a partition of `__consumer_offsets` the group coordinator appends
the marker: the transaction's offsets count, or are dropped, before the response (KAFKA-17507).

Version notes. From version 2 on (KIP-1228) a marker names the transaction version of its
transaction: see `check_marker` of `log/producers/producer_state.py`.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.coordinator.result import TransactionEnd
from barnabas.server.broker import Broker
from barnabas.server.coordinators.leader_writer import LeaderWriter
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC
from barnabas.server.requests.dispatch import Call
from barnabas.wire.records.records import ControlType, EndTransactionMarker

# A transaction coordinator knows no errors of group coordinators: it tries again at the leader.
_FROM_GROUPS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.not_coordinator: ErrorCode.not_leader_or_follower,
    ErrorCode.coordinator_load_in_progress: ErrorCode.not_leader_or_follower,
    ErrorCode.coordinator_not_available: ErrorCode.not_leader_or_follower,
}


async def handle(
    broker: Broker, delayed: Delayed, request: WriteTxnMarkersRequest, _: Call
) -> WriteTxnMarkersResponse:
    writer = LeaderWriter(broker.replicas, delayed)
    begun = [
        {
            at: _begin(broker, writer, at, _end_of(marker))
            for topic in marker.topics
            for at in (TopicPartition(topic.name, each) for each in topic.partition_indexes)
        }
        for marker in request.markers
    ]
    results = [{at: await _code(at, code) for at, code in each.items()} for each in begun]
    return WriteTxnMarkersResponse(
        markers=tuple(map(_result, request.markers, results)),
    )


def _end_of(marker: WritableTxnMarker) -> TransactionEnd:
    control_type = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT
    return TransactionEnd(
        marker.producer_id,
        marker.producer_epoch,
        EndTransactionMarker(control_type, marker.coordinator_epoch),
        marker.transaction_version,
    )


def _begin(
    broker: Broker, writer: LeaderWriter, partition: TopicPartition, end: TransactionEnd
) -> "asyncio.Future[ErrorCode]":
    """Append one marker, to the leader of that name now; the result comes with its commit."""
    written: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def done(code: ErrorCode) -> None:
        if not written.done():  # else the request was cancelled
            written.set_result(code)

    try:
        if partition.topic == OFFSETS_TOPIC:
            return broker.groups.end_transaction(partition.partition, end)
        until = writer.append_marker(partition, end, broker.clock.now_ms())
        timeout_ms = broker.configs.broker.int("request.timeout.ms")
        writer.when_committed(partition, until, timeout_ms, done)
    except BrokerError as e:
        done(e.code)
    except DiskFault as fault:
        broker.failures.disk_failed(fault)
        done(ErrorCode.kafka_storage_error)
    return written


async def _code(partition: TopicPartition, written: "asyncio.Future[ErrorCode]") -> ErrorCode:
    try:
        code = await written
    except BrokerError as e:
        code = e.code
    return _FROM_GROUPS.get(code, code) if partition.topic == OFFSETS_TOPIC else code


def _result(
    marker: WritableTxnMarker, codes: Mapping[TopicPartition, ErrorCode]
) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=tuple(
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=codes[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )
