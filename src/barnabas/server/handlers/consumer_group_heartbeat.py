"""ConsumerGroupHeartbeat (68): heartbeats and assignments of a consumer group (KIP-848).

Version notes. From version 1 on the client generates its member id, and may subscribe by a regex.

As in Kafka 4 (KAFKA-18813), a member subscribes only to topics that its client may describe: an
assignment shows that a topic exists, and how many partitions it has. A topic by name that it may
not describe refuses the request; a regex leaves it out, and the audit log does not name it.
"""

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.groups.consumer.consumer_messages import (
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
)
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE, duration, milliseconds


async def handle(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse:
    beat = _beat(request, call)
    consumers = broker.groups.consumers
    try:
        if not _may_subscribe(request, call):
            raise BrokerError(ErrorCode.topic_authorization_failed)
        reply = await broker.groups.ask(
            request.group_id,
            lambda shard, now: consumers.consumer_heartbeat(
                shard.groups.get(beat.group_id), beat, now
            ),
        )
    except BrokerError as e:
        reply = ConsumerHeartbeatReply(e.code, e.message)
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=reply.error,
        error_message=reply.error_message,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval=duration(reply.heartbeat_interval_ms),
        assignment=None
        if reply.assignment is None
        else Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
                for topic_id, partitions in reply.assignment.items()
            )
        ),
    )


def _may_subscribe(request: ConsumerGroupHeartbeatRequest, call: Call) -> bool:
    """True if its client may describe all topics that it names."""
    names = sorted(set(request.subscribed_topic_names or ()))
    return all(call.access.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names)


def _beat(request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerHeartbeatRequest:
    owned = request.topic_partitions

    def may_describe(topic: str) -> bool:
        return call.access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, log_if_denied=False)

    return ConsumerHeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client_id=call.client_id or "",
        client_host=f"/{call.connection.host}",
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        subscribed_topic_names=request.subscribed_topic_names,
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None
        if owned is None
        else {each.topic_id: frozenset(each.partitions) for each in owned},
        knows_its_id=call.version >= 1,
        may_describe=may_describe,
    )
