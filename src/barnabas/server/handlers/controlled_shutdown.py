"""ControlledShutdown (7): a broker about to stop asks that others lead what it leads."""

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.controller.events import ControlledShutdown
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.control.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


async def handle(
    broker: Broker, request: ControlledShutdownRequest, _: Call | None
) -> ControlledShutdownResponse:
    try:
        remaining = await broker.controller.ask(
            ControlledShutdown(BrokerId(request.broker_id), request.broker_epoch)
        )
    except BrokerError as e:
        return ControlledShutdownResponse(error_code=e.code, remaining_partitions=())
    return ControlledShutdownResponse(
        error_code=ErrorCode.none,
        remaining_partitions=tuple(
            RemainingPartition(topic_name=each.topic, partition_index=each.partition)
            for each in remaining
        ),
    )
