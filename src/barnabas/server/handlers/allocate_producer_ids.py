"""AllocateProducerIds (67): a broker asks the controller for a block of producer ids.

Our own brokers allocate theirs in the tree; Kafka's, from 3.0 on, send this request.
"""

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: AllocateProducerIdsRequest, _: Call
) -> AllocateProducerIdsResponse:
    try:
        broker.check_controller()
        block = await broker.producer_ids.take_block(BrokerId(request.broker_id))
    except BrokerError as e:
        return _response(e.code, 0, 0)
    return _response(ErrorCode.none, block.start, block.end - block.start)


def _response(code: ErrorCode, start: int, length: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        producer_id_start=start,
        producer_id_len=length,
    )
