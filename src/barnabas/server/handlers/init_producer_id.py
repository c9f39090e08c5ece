"""InitProducerId (22): an id for an idempotent producer, an id and epoch for a transactional one.

Version notes. From version 3 a producer may bring the id and epoch it has, to raise the
epoch after an error; without a transactional id Kafka gives a new id all the same. Before version
4 a fenced producer gets INVALID_PRODUCER_EPOCH.
"""

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.access import Access
from barnabas.server.requests.dispatch import Call
from barnabas.server.transactions.fenced_errors import fenced_error
from barnabas.transactions.transaction_messages import InitProducer, Producer, ProducerReply
from barnabas.wire.schema import NO_THROTTLE, milliseconds

# The first version that knows PRODUCER_FENCED.
_FENCED = 4


async def handle(
    broker: Broker, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse:
    if (code := refusal(request, call.access)) is not ErrorCode.none:
        return _response(ProducerReply(code), call)
    try:
        reply = await _init_producer(broker, request)
    except BrokerError as e:
        reply = ProducerReply(e.code)
    return _response(reply, call)


def refusal(request: InitProducerIdRequest, access: Access) -> ErrorCode:
    """The error for a client that may not; `none` if it may."""
    if request.transactional_id is not None:
        name = request.transactional_id
        if not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
            return ErrorCode.transactional_id_authorization_failed
    elif not access.may(
        Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, log_if_denied=False
    ) and not access.may_any(Operation.WRITE, ResourceType.TOPIC):
        return ErrorCode.cluster_authorization_failed
    return ErrorCode.none


def _response(reply: ProducerReply, call: Call) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=fenced_error(reply.error, call.version >= _FENCED),
        producer_id=reply.producer.producer_id,
        producer_epoch=reply.producer.epoch,
    )


async def _init_producer(broker: Broker, request: InitProducerIdRequest) -> ProducerReply:
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
