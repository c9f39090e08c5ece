"""LeaveGroup (13): removes members from a group.

Version notes. Up to version 2 one member leaves, by its id; from 3 on several, static ones by
their instance ids; version 5 added the reason.
"""

from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.groups.classic.classic_messages import LeaveReply, LeaveRequest, LeavingMember
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(broker: Broker, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    if call.version < 3:
        leaving: tuple[LeavingMember, ...] = (LeavingMember(call.sent.member_id),)
    else:
        leaving = tuple(
            LeavingMember(each.member_id, each.group_instance_id, each.reason)
            for each in request.members
        )
    wanted = LeaveRequest(request.group_id, leaving)
    try:
        reply = await broker.groups.ask(
            request.group_id, lambda shard, now: shard.leave(wanted, now)
        )
    except BrokerError as e:
        reply = LeaveReply(e.code)
    return LeaveGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=_error(reply, call.version),
        members=tuple(
            MemberResponse(
                member_id=left.member_id,
                group_instance_id=left.group_instance_id,
                error_code=left.error,
            )
            for left in reply.members
        ),
    )


def _error(reply: LeaveReply, version: int) -> ErrorCode:
    """In versions without a list of members the member's error is the error of the response."""
    if reply.error is ErrorCode.none and version < 3 and reply.members:
        return reply.members[0].error
    return reply.error
