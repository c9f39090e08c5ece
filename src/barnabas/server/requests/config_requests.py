"""AlterConfigs and IncrementalAlterConfigs: each resource is altered, or refused, by itself."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.security.acls import Operation
from barnabas.server.cluster.config_admin import Resource, check_once
from barnabas.server.requests.config_access import check_config
from barnabas.server.requests.dispatch import Call

Response = TypeVar("Response")

# A change reads and writes the coordination tree: a few of them for each turn of the loop.
_WEIGHT: Final = 20


async def alter_each(
    resources: Sequence[Any],
    alter: Callable[[Resource, Any], Awaitable[None]],
    respond: Callable[..., Response],
    call: Call,
) -> tuple[Response, ...]:
    """The responses for the resources, in their order."""
    named = Counter((each.resource_type, each.resource_name) for each in resources)
    responses = []
    async for sent in Turns().each(resources, _WEIGHT):
        resource = Resource(sent.resource_type, sent.resource_name)
        code, message = ErrorCode.none, None
        try:
            check_config(call.access, Operation.ALTER_CONFIGS, *resource)
            check_once(named[resource], sent.configs)
            await alter(resource, sent)
        except BrokerError as e:
            code, message = e.code, str(e)
        responses.append(
            respond(
                error_code=code,
                error_message=message,
                resource_type=resource.type,
                resource_name=resource.name,
            )
        )
    return tuple(responses)
