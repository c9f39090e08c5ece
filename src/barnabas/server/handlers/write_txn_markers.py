"""WriteTxnMarkers (27): a transaction coordinator ends transactions in partitions that we lead.

All markers are appended at once. The one response leaves when all of them are committed, or have
failed.

Version notes. From version 2 on (KIP-1228) a marker names the transaction version of its
transaction: see `check_marker` of `log/producers/producer_state.py`.
"""

from collections.abc import Mapping

from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.coordinator.result import TransactionEnd
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.server.transactions.marker_writer import written
from barnabas.wire.records.records import ControlType, EndTransactionMarker


async def handle(
    broker: Broker, request: WriteTxnMarkersRequest, _: Call
) -> WriteTxnMarkersResponse:
    begun = [
        broker.markers.begin(
            _end_of(marker),
            [
                TopicPartition(topic.name, each)
                for topic in marker.topics
                for each in topic.partition_indexes
            ],
        )
        for marker in request.markers
    ]
    results = [await written(each) for each in begun]
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
