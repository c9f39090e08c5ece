"""InitProducerId (22): an id for an idempotent producer.

Version notes. From version 3 a producer may bring the id and epoch it has, to raise the
epoch after an error; without a transactional id Kafka gives a new id all the same.
"""

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.access import Access
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse:
    if (code := refusal(request, call.access)) is not ErrorCode.none:
        return _response(code)
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


def _response(code: ErrorCode, producer_id: int = -1, epoch: int = -1) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE, error_code=code, producer_id=producer_id, producer_epoch=epoch
    )
