"""WriteTxnMarkers (27): a transaction coordinator ends transactions in partitions that we lead.

All markers are appended before the first is waited for. The one response leaves when all of them
are committed, or have failed.

Version notes. From version 2 on (KIP-1228) a marker names the transaction version of its
transaction: see `check_marker` of `log/producers/producer_state.py`.
"""

import asyncio
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
from barnabas.base.turns import Turns
from barnabas.coordinator.result import TransactionEnd
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.server.transactions.marker_writer import written
from barnabas.wire.records.records import ControlType, EndTransactionMarker


async def handle(
    broker: Broker, request: WriteTxnMarkersRequest, _: Call
) -> WriteTxnMarkersResponse:
    turns = Turns()
    begun = [await _begun(broker, marker, turns) for marker in request.markers]
    results = [await written(each) for each in begun]
    return WriteTxnMarkersResponse(
        markers=tuple(
            [
                await _result(marker, codes, turns)
                for marker, codes in zip(request.markers, results, strict=True)
            ]
        ),
    )


async def _begun(
    broker: Broker, marker: WritableTxnMarker, turns: Turns
) -> "dict[TopicPartition, asyncio.Future[ErrorCode]]":
    end = _end_of(marker)
    parts = await turns.listed(
        broker.markers.begin(end, (TopicPartition(topic.name, each),))
        for topic in marker.topics
        for each in topic.partition_indexes
    )
    return {at: result for part in parts for at, result in part.items()}


def _end_of(marker: WritableTxnMarker) -> TransactionEnd:
    control_type = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT
    return TransactionEnd(
        marker.producer_id,
        marker.producer_epoch,
        EndTransactionMarker(control_type, marker.coordinator_epoch),
        marker.transaction_version,
    )


async def _result(
    marker: WritableTxnMarker, codes: Mapping[TopicPartition, ErrorCode], turns: Turns
) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            [
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        await turns.listed(
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=codes[TopicPartition(topic.name, index)],
                            )
                            for index in topic.partition_indexes
                        )
                    ),
                )
                for topic in marker.topics
            ]
        ),
    )
