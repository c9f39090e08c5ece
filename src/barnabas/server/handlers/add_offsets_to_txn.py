"""AddOffsetsToTxn (25): adds a group's partition of `__consumer_offsets` to a transaction.

Version notes. Before version 2 a fenced producer gets INVALID_PRODUCER_EPOCH.
"""

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.server.broker import Broker
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC
from barnabas.server.requests.dispatch import Call
from barnabas.server.transactions.fenced_errors import fenced_error
from barnabas.transactions.transaction_messages import AddPartitions, Producer
from barnabas.wire.schema import NO_THROTTLE

# The first version that knows PRODUCER_FENCED.
_FENCED = 2


async def handle(
    broker: Broker, request: AddOffsetsToTxnRequest, call: Call
) -> AddOffsetsToTxnResponse:
    try:
        code = await _add(broker, request)
    except BrokerError as e:
        code = e.code
    return AddOffsetsToTxnResponse(
        throttle_time=NO_THROTTLE, error_code=fenced_error(code, call.version >= _FENCED)
    )


async def _add(broker: Broker, request: AddOffsetsToTxnRequest) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.invalid_request
    partition = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))
    return await broker.transactions.add_when_ended(
        AddPartitions(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            frozenset({partition}),
        )
    )
