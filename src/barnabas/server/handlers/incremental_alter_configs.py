"""IncrementalAlterConfigs (44): sets, deletes, appends to and subtracts from single properties."""

from collections import Counter
from typing import Final

from kio.schema.incremental_alter_configs.v1.request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.security.acls import Operation as Acl
from barnabas.server.broker import Broker
from barnabas.server.cluster.config_admin import Resource, check_once, check_values
from barnabas.server.cluster.config_alterations import Alteration, Operation
from barnabas.server.requests.config_access import check_config
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

# A change reads and writes the coordination tree: a few of them for each turn of the loop.
_WEIGHT: Final = 20


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    named = Counter((r.resource_type, r.resource_name) for r in request.resources)
    validate_only, turns = request.validate_only, Turns()
    return IncrementalAlterConfigsResponse(
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
        check_values(
            config.name
            for config in wanted.configs
            if config.value is None and config.config_operation != Operation.DELETE
        )
        await broker.config_admin.alter(
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
            ErrorCode.invalid_request, f"Unknown operations type {operation}"
        ) from None
    return Alteration(name, known, value)
