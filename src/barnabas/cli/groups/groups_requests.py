"""Requests to a group's coordinator that librdkafka does not have: epochs, offsets deleted."""

from collections.abc import Iterable, Sequence

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition as Partition
from barnabas.base.ids import by_topic
from barnabas.cli.admin.admin_requests import PartitionOutcome
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.raw_client import RawClient, ask_cluster
from barnabas.client.retries import error_words
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message


async def delete_offsets(
    client: RawClient, group: str, partitions: Sequence[Partition]
) -> list[PartitionOutcome]:
    """Delete the group's offsets of these partitions; returns the outcome of each.

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
    answer = await client.ask_coordinator(group, ApiKey.OFFSET_DELETE, request)
    if answer.error_code is not ErrorCode.none:
        raise CommandFailed(f"group {group}: {error_words(answer.error_code)}")
    return [
        PartitionOutcome(Partition(topic.name, each.partition_index), each.error_code, None)
        for topic in answer.topics
        for each in topic.partitions
    ]


def consumer_details(bootstrap: str, groups: Iterable[str]) -> dict[str, Message]:
    """Epochs and exact states of groups of the consumer protocol, of those that answer.

    Brokers before Kafka 4.0 do not.
    """
    return ask_cluster(bootstrap, lambda client: _consumer_details(client, list(groups)))


async def _consumer_details(client: RawClient, groups: Sequence[str]) -> dict[str, Message]:
    found = {}
    for group in groups:
        request = ConsumerGroupDescribeRequest(
            group_ids=(group,), include_authorized_operations=False
        )
        try:
            answer = await client.ask_coordinator(group, ApiKey.CONSUMER_GROUP_DESCRIBE, request)
        except (PeerGone, CommandFailed):
            continue
        (told,) = answer.groups
        if told.error_code is ErrorCode.none:
            found[group] = told
    return found
