"""ListGroups (16): the groups that this broker coordinates.

Version notes. Version 4 added states and a filter by state, version 5 the same for types.
"""

from collections.abc import Iterable

from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


def handle(broker: Broker, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    code, groups = ErrorCode.none, ()
    sees_all = call.access.may(Operation.DESCRIBE, ResourceType.CLUSTER, log_if_denied=False)
    states, types = _lower(request.states_filter), _lower(request.types_filter)
    try:
        groups = tuple(
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for shard in broker.groups.shards()
            for group in shard.list_groups(states, types)
            if sees_all
            or call.access.may(
                Operation.DESCRIBE, ResourceType.GROUP, group.group_id, log_if_denied=False
            )
        )
    except BrokerError as e:
        code = e.code
    return ListGroupsResponse(throttle_time=NO_THROTTLE, error_code=code, groups=groups)


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.strip().lower() for name in names)
