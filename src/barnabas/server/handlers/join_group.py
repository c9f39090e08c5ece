"""JoinGroup (11): a client joins a group; the response is sent when the rebalance is complete.

Version notes. Before version 1 the session timeout is the rebalance timeout, too. From 4 on a new
member first gets an id and joins with it; from 5 on it may be static; from 7 on the response has
the protocol's type, and its name may be null; version 9 added `skip_assignment`.
"""

from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember

from barnabas.base.errors import BrokerError
from barnabas.groups.classic.classic_messages import JoinReply, JoinRequest, OfferedProtocol
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE, milliseconds


async def handle(broker: Broker, request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    wanted = _wanted(request, call)
    try:
        reply = await broker.groups.ask(
            request.group_id, lambda shard, now: shard.join(wanted, now)
        )
    except BrokerError as e:
        reply = JoinReply(e.code, request.member_id)
    name = reply.protocol_name
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=reply.error,
        generation_id=reply.generation_id,
        protocol_type=reply.protocol_type,
        protocol_name="" if name is None and call.version < 7 else name,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
            for member in reply.members
        ),
    )


def _wanted(request: JoinGroupRequest, call: Call) -> JoinRequest:
    session_timeout_ms = milliseconds(request.session_timeout)
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        client_id=call.client_id or "",
        client_host=f"/{call.connection.host}",
        protocol_type=request.protocol_type,
        protocols=tuple(OfferedProtocol(each.name, each.metadata) for each in request.protocols),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout)
        if call.version >= 1
        else session_timeout_ms,
        group_instance_id=request.group_instance_id,
        must_know_its_id=call.version >= 4,
        may_skip_assignment=call.version >= 9,
        reason=request.reason,
    )
