"""IncrementalAlterConfigs (44): sets, deletes, appends to and subtracts from single properties."""

from kio.schema.incremental_alter_configs.v1.request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.configs import Alteration, Operation, Resource
from barnabas.server.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, _: Call
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        throttle_time=NO_THROTTLE,
        responses=tuple(
            [await _alter(broker, r, request.validate_only) for r in request.resources]
        ),
    )


async def _alter(
    broker: Broker, wanted: AlterConfigsResource, validate_only: bool
) -> AlterConfigsResourceResponse:
    code, message = ErrorCode.none, ""
    try:
        await broker.configs.alter(
            Resource(wanted.resource_type, wanted.resource_name),
            [_alteration(c.name, c.config_operation, c.value) for c in wanted.configs],
            validate_only=validate_only,
        )
    except BrokerError as e:
        code, message = e.code, str(e)
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=wanted.resource_type,
        resource_name=wanted.resource_name,
    )


def _alteration(name: str, operation: int, value: str | None) -> Alteration:
    try:
        known = Operation(operation)
    except ValueError:
        raise BrokerError(
            ErrorCode.invalid_request, f"Unknown operation {operation} on config {name}."
        ) from None
    if value is None and known is not Operation.DELETE:
        raise BrokerError(ErrorCode.invalid_request, f"Null value not supported for {name}.")
    return Alteration(name, known, value)
