"""AlterConfigs (33): replaces all that was set on a resource; deprecated, still used."""

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse

from barnabas.server.broker import Broker
from barnabas.server.cluster.config_admin import Resource, check_values
from barnabas.server.requests.config_requests import alter_each
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(broker: Broker, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    async def replace(resource: Resource, sent: AlterConfigsResource) -> None:
        check_values(config.name for config in sent.configs if config.value is None)
        await broker.config_admin.replace(
            resource,
            {config.name: config.value for config in sent.configs},
            validate_only=request.validate_only,
        )

    return AlterConfigsResponse(
        throttle_time=NO_THROTTLE,
        responses=await alter_each(request.resources, replace, AlterConfigsResourceResponse, call),
    )
