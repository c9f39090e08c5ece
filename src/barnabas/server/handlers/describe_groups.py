"""DescribeGroups (15): classic groups, their members and assignments.

Version notes. Version 3 added the authorized operations, version 4 the instance ids of static
members.
"""

from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_groups.v5.response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.coordinator.result import CoordinatorResult
from barnabas.groups.classic import classic_messages
from barnabas.security.acls import ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.access import operations_if_asked
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: DescribeGroupsRequest, call: Call
) -> DescribeGroupsResponse:
    turns = Turns()

    async def one(group_id: str) -> DescribedGroup:
        group = await _described(broker, group_id)
        is_asked = request.include_authorized_operations and group.error is ErrorCode.none
        operations = operations_if_asked(is_asked, call.access, ResourceType.GROUP, group_id)
        return _response(group, operations)

    return DescribeGroupsResponse(
        throttle_time=NO_THROTTLE,
        groups=tuple(
            [
                await one(group_id)
                # A group that is named twice is in the response once.
                async for group_id in turns.each(dict.fromkeys(request.groups))
            ]
        ),
    )


async def _described(broker: Broker, group_id: str) -> classic_messages.DescribedGroup:
    try:
        return await broker.groups.ask(
            group_id, lambda shard, _: CoordinatorResult(shard.describe(group_id))
        )
    except BrokerError as e:
        return classic_messages.DescribedGroup(group_id, state="", error=e.code)


def _response(group: classic_messages.DescribedGroup, operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
        authorized_operations=operations,
    )
