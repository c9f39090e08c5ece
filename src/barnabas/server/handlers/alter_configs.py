"""AlterConfigs (33): replaces all that was set on a resource; deprecated, still used."""

from collections import Counter
from typing import Final

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.security.acls import Operation as Acl
from barnabas.server.broker import Broker
from barnabas.server.cluster.config_admin import Resource, check_once, check_values
from barnabas.server.requests.config_access import check_config
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

# A change reads and writes the coordination tree: a few of them for each turn of the loop.
_WEIGHT: Final = 20


async def handle(broker: Broker, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    named = Counter((r.resource_type, r.resource_name) for r in request.resources)
    validate_only, turns = request.validate_only, Turns()
    return AlterConfigsResponse(
        throttle_time=NO_THROTTLE,
        responses=tuple(
            [
                await _alter(
                    broker, r, named[r.resource_type, r.resource_name], validate_only, call
                )
                async for r in turns.each(request.resources, _WEIGHT)
            ]
        ),
    )


async def _alter(
    broker: Broker, wanted: AlterConfigsResource, times_named: int, validate_only: bool, call: Call
) -> AlterConfigsResourceResponse:
    code, message = ErrorCode.none, None
    try:
        check_config(call.access, Acl.ALTER_CONFIGS, wanted.resource_type, wanted.resource_name)
        check_once(times_named, wanted.configs)
        check_values(config.name for config in wanted.configs if config.value is None)
        await broker.config_admin.replace(
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
