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
from barnabas.server.cluster.config_admin import Resource, check_values
from barnabas.server.cluster.config_alterations import Alteration, Operation
from barnabas.server.requests.config_requests import alter_each
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    async def alter(resource: Resource, sent: AlterConfigsResource) -> None:
        check_values(
            config.name
            for config in sent.configs
            if config.value is None and config.config_operation != Operation.DELETE
        )
        await broker.config_admin.alter(
            resource,
            [_alteration(c.name, c.config_operation, c.value) for c in sent.configs],
            validate_only=request.validate_only,
        )

    return IncrementalAlterConfigsResponse(
        throttle_time=NO_THROTTLE,
        responses=await alter_each(request.resources, alter, AlterConfigsResourceResponse, call),
    )


def _alteration(name: str, operation: int, value: str | None) -> Alteration:
    try:
        known = Operation(operation)
    except ValueError:
        raise BrokerError(
            ErrorCode.invalid_request, f"Unknown operations type {operation}"
        ) from None
    return Alteration(name, known, value)
