"""What librdkafka cannot ask of a group's coordinator: epochs, and to forget single offsets."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition as Partition
from barnabas.cli.admin.admin_requests import Outcome, by_topic
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.raw_client import RawClient, ask_cluster, refusal
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message

_GROUP: Final = 0
_ATTEMPTS: Final = 40
_BACK_OFF_S: Final = 0.25
_MOVING: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


async def delete_offsets(
    client: RawClient, group: str, partitions: Sequence[Partition]
) -> list[Outcome]:
    """Forget what the group committed for these partitions; tells what became of each.

    Raises  CommandFailed if the group as a whole is refused; nothing was deleted then
    """
    request = OffsetDeleteRequest(
        group_id=group,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=n) for n in numbers),
            )
            for topic, numbers in by_topic(partitions).items()
        ),
    )
    answer = await _ask_coordinator(client, group, ApiKey.OFFSET_DELETE, request)
    if answer.error_code is not ErrorCode.none:
        raise CommandFailed(f"group {group}: {refusal(answer.error_code, None)}")
    return [
        Outcome(Partition(topic.name, each.partition_index), each.error_code, None)
        for topic in answer.topics
        for each in topic.partitions
    ]


def consumer_details(bootstrap: str, groups: Iterable[str]) -> dict[str, Message]:
    """Epochs and exact states of groups of the consumer protocol, as far as a broker tells them.

    Brokers before Kafka 4.0 do not, nor does one that is not reached by a plain connection.
    """
    return ask_cluster(bootstrap, lambda client: _consumer_details(client, list(groups)))


async def _consumer_details(client: RawClient, groups: Sequence[str]) -> dict[str, Message]:
    found = {}
    for group in groups:
        request = ConsumerGroupDescribeRequest(
            group_ids=(group,), include_authorized_operations=False
        )
        try:
            answer = await _ask_coordinator(client, group, ApiKey.CONSUMER_GROUP_DESCRIBE, request)
        except (PeerGone, CommandFailed):
            continue
        (told,) = answer.groups
        if told.error_code is ErrorCode.none:
            found[group] = told
    return found


async def _ask_coordinator(client: RawClient, group: str, key: ApiKey, request: Message) -> Message:
    """What the group's coordinator answers; one that moves or loads is asked again for a while."""
    for _ in range(_ATTEMPTS):
        answer = await _find_coordinator(client, group)
        code = answer.error_code
        if code is ErrorCode.none:
            answer = await client.ask(answer.node_id, key, request)
            code = getattr(answer, "error_code", ErrorCode.none)
            if code not in _MOVING:
                return answer
        elif code not in _MOVING:
            break
        await asyncio.sleep(_BACK_OFF_S)
    raise CommandFailed(f"group {group}: {refusal(code, None)}")


async def _find_coordinator(client: RawClient, group: str) -> Message:
    request = FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=(group,))
    gone = PeerGone("no broker is known")
    for broker in (await client.metadata()).brokers:
        try:
            answer = await client.ask(broker.node_id, ApiKey.FIND_COORDINATOR, request)
        except PeerGone as failure:
            gone = failure
            continue
        (found,) = answer.coordinators
        return found
    raise gone
