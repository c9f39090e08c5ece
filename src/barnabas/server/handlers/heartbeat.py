"""Heartbeat (12): keeps a member's session alive; REBALANCE_IN_PROGRESS asks it to rejoin."""

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse

from barnabas.base.errors import BrokerError
from barnabas.groups.classic import classic_messages
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(broker: Broker, request: HeartbeatRequest, _: Call) -> HeartbeatResponse:
    beat = classic_messages.HeartbeatRequest(
        request.group_id, request.member_id, request.generation_id, request.group_instance_id
    )
    try:
        code = await broker.groups.ask(
            request.group_id, lambda shard, now: shard.heartbeat(beat, now)
        )
    except BrokerError as e:
        code = e.code
    return HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=code)
