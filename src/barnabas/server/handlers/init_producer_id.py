"""InitProducerId (22): an id for an idempotent producer.

Version notes. From version 3 a producer may bring the id and epoch it has, to raise the
epoch after an error; without a transactional id Kafka gives a new id all the same.
"""

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(broker: Broker, request: InitProducerIdRequest, _: Call) -> InitProducerIdResponse:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _response(ErrorCode.invalid_request)
    if request.transactional_id is not None:
        # No transaction coordinator is here; an empty id is not one for any coordinator.
        code = ErrorCode.not_coordinator if request.transactional_id else ErrorCode.invalid_request
        return _response(code)
    try:
        return _response(ErrorCode.none, await broker.producer_ids.next(), 0)
    except BrokerError as e:
        return _response(e.code)


def _response(code: ErrorCode, producer_id: int = -1, epoch: int = -1) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE, error_code=code, producer_id=producer_id, producer_epoch=epoch
    )
