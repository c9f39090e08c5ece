"""AlterConfigs (33): replaces all that was set on a resource; deprecated, still used."""

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.configs import Resource
from barnabas.server.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(broker: Broker, request: AlterConfigsRequest, _: Call) -> AlterConfigsResponse:
    return AlterConfigsResponse(
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
        if any(config.value is None for config in wanted.configs):
            raise BrokerError(ErrorCode.invalid_request, "Null value not supported for a config.")
        await broker.configs.replace(
            Resource(wanted.resource_type, wanted.resource_name),
            {config.name: config.value for config in wanted.configs},
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
