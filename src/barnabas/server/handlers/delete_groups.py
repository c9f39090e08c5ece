"""DeleteGroups (42): deletes groups without members, and their offsets."""

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(broker: Broker, request: DeleteGroupsRequest, _: Call) -> DeleteGroupsResponse:
    turns = Turns()
    return DeleteGroupsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            [
                DeletableGroupResult(group_id=group_id, error_code=await _delete(broker, group_id))
                async for group_id in turns.each(dict.fromkeys(request.groups_names))
            ]
        ),
    )


async def _delete(broker: Broker, group_id: str) -> ErrorCode:
    try:
        reply = await broker.groups.ask(group_id, lambda shard, _: shard.delete([group_id]))
    except BrokerError as e:
        return e.code
    return reply.errors[group_id]
