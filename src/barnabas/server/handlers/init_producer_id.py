"""InitProducerId (22): an id for an idempotent producer, an id and epoch for a transactional one.

Version notes. From version 3 a producer may bring the id and epoch it has, to raise the
epoch after an error; without a transactional id Kafka gives a new id all the same. Before version
4 a fenced producer gets INVALID_PRODUCER_EPOCH.
"""

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.server.transactions.fenced_errors import fenced_error
from barnabas.transactions.transaction_messages import InitProducer, Producer, ProducerReply
from barnabas.wire.schema import NO_THROTTLE, milliseconds

# The first version that knows PRODUCER_FENCED.
_FENCED = 4


async def handle(
    broker: Broker, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse:
    try:
        reply = await _decide(broker, request)
    except BrokerError as e:
        reply = ProducerReply(e.code)
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=fenced_error(reply.error, call.version >= _FENCED),
        producer_id=reply.producer.producer_id,
        producer_epoch=reply.producer.epoch,
    )


async def _decide(broker: Broker, request: InitProducerIdRequest) -> ProducerReply:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return ProducerReply(ErrorCode.invalid_request)
    if request.transactional_id is None:
        return ProducerReply(producer=Producer(await broker.producer_ids.next(), 0))
    if not request.transactional_id:
        return ProducerReply(ErrorCode.invalid_request)
    return await broker.transactions.init(
        InitProducer(
            request.transactional_id,
            milliseconds(request.transaction_timeout),
            Producer(request.producer_id, request.producer_epoch),
        )
    )
