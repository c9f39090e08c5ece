"""SyncGroup (14): the leader sends the assignment, each member gets its part.

Version notes. From version 5 on request and response name the protocol, and the request must.
"""

from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.groups.classic.classic_messages import SyncReply, SyncRequest
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(broker: Broker, request: SyncGroupRequest, call: Call) -> SyncGroupResponse:
    names_protocol = call.version >= 5
    try:
        if names_protocol and None in (request.protocol_type, request.protocol_name):
            raise BrokerError(ErrorCode.inconsistent_group_protocol)
        wanted = SyncRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            generation_id=request.generation_id,
            group_instance_id=request.group_instance_id,
            protocol_type=request.protocol_type if names_protocol else None,
            protocol_name=request.protocol_name if names_protocol else None,
            assignments={each.member_id: each.assignment for each in request.assignments},
            largest_record=broker.groups.largest_record(request.group_id),
        )
        reply = await broker.groups.ask(
            request.group_id, lambda shard, now: shard.sync(wanted, now)
        )
    except BrokerError as e:
        reply = SyncReply(e.code)
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )
