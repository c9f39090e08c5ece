"""EndTxn (26): commits or aborts a transaction.

Version notes. Before version 2 a fenced producer gets INVALID_PRODUCER_EPOCH. Version 5 raises the
epoch with each transaction and returns the producer id and epoch to go on with (KIP-890).
"""

from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.server.transactions.fenced_errors import fenced_error
from barnabas.transactions.transaction_messages import EndTransaction, Producer, ProducerReply
from barnabas.transactions.transaction_metadata import EPOCH_BUMP
from barnabas.wire.schema import NO_THROTTLE

# The first version that knows PRODUCER_FENCED, and the first that raises the epoch.
_FENCED = 2
_BUMPS = 5


async def handle(broker: Broker, request: EndTxnRequest, call: Call) -> EndTxnResponse:
    try:
        reply = await _end(broker, request, EPOCH_BUMP if call.version >= _BUMPS else 0)
    except BrokerError as e:
        reply = ProducerReply(e.code)
    return EndTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=fenced_error(reply.error, call.version >= _FENCED),
        producer_id=reply.producer.producer_id,
        producer_epoch=reply.producer.epoch,
    )


async def _end(broker: Broker, request: EndTxnRequest, version: int) -> ProducerReply:
    if not request.transactional_id:
        return ProducerReply(ErrorCode.invalid_request)
    return await broker.transactions.end(
        EndTransaction(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            request.committed,
            version,
        )
    )
