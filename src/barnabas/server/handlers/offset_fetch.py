"""OffsetFetch (9): the committed offsets of groups.

Version notes. Version 0 is another API: see `offset_fetch_v0`. Up to version 7 one group is asked
for; from 8 on several. From 2 on null topics ask for all, and there is an error for the whole; from
7 on open transactions can be waited for; from 9 on a member of a consumer group is checked by its
epoch.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.schema.offset_fetch.v9.request import OffsetFetchRequest
from kio.schema.offset_fetch.v9.response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.coordinator.result import CoordinatorResult
from barnabas.groups.offsets.offset_messages import (
    AskedTopic,
    FetchedOffset,
    FetchedTopic,
    FetchReply,
)
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.access import Access
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


@dataclass(frozen=True, slots=True)
class Fetched:
    """The response in both forms: for one group, and for several."""

    groups: tuple[OffsetFetchResponseGroup, ...]
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode
    throttle_time: timedelta = NO_THROTTLE


async def handle(broker: Broker, request: OffsetFetchRequest, call: Call) -> Fetched:
    asked = request.groups if call.version >= 8 else (call.sent,)
    turns, named = Turns(), Counter(group.group_id for group in asked)
    groups = tuple(
        [
            _told(
                group,
                await _fetch(broker, group, request.require_stable, call.access)
                if named[group.group_id] == 1
                else FetchReply(error=ErrorCode.invalid_request),
                call.version,
            )
            async for group in turns.each(asked)
        ]
    )
    first = groups[0] if groups else None
    return Fetched(
        groups,
        first.topics if first is not None else (),
        first.error_code if first is not None else ErrorCode.invalid_request,
    )


async def _fetch(broker: Broker, asked: Any, require_stable: bool, access: Access) -> FetchReply:
    if not access.may(Operation.DESCRIBE, ResourceType.GROUP, asked.group_id):
        return FetchReply(error=ErrorCode.group_authorization_failed)
    refused: list[FetchedTopic] = []
    topics = None
    if asked.topics is not None:
        topics = [
            AskedTopic(name, tuple(partitions))
            for name, partitions in _named(asked.topics).items()
            if _may_describe(access, name)
        ]
        refused = [
            FetchedTopic(
                topic.name,
                [
                    FetchedOffset(index, error=ErrorCode.topic_authorization_failed)
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics
            if not _may_describe(access, topic.name)
        ]
    member_id, member_epoch = getattr(asked, "member_id", None), getattr(asked, "member_epoch", -1)
    try:
        reply = await broker.groups.ask(
            asked.group_id,
            lambda shard, _: CoordinatorResult(
                shard.offsets.fetch(asked.group_id, topics, member_id, member_epoch, require_stable)
            ),
        )
    except BrokerError as e:
        return FetchReply(error=e.code)
    if reply.error is ErrorCode.none:
        found = [each for each in reply.topics if _may_describe(access, each.topic)]
        return reply._replace(topics=[*found, *refused])
    return reply


def _named(topics: Iterable[Any]) -> dict[str, dict[int, None]]:
    """Each partition once, however often it is named: an offset may have 4 KB of metadata."""
    named: dict[str, dict[int, None]] = {}
    for topic in topics:
        named.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return named


def _may_describe(access: Access, topic: str) -> bool:
    return access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _told(asked: Any, reply: FetchReply, version: int) -> OffsetFetchResponseGroup:
    topics: Iterable[FetchedTopic] = reply.topics
    if reply.error is not ErrorCode.none and version < 2:
        # Only partitions have an error there.
        topics = [
            FetchedTopic(
                topic.name,
                [FetchedOffset(index, error=reply.error) for index in topic.partition_indexes],
            )
            for topic in asked.topics
        ]
    return OffsetFetchResponseGroup(
        group_id=asked.group_id,
        topics=tuple(
            OffsetFetchResponseTopics(
                name=topic.topic,
                partitions=tuple(
                    OffsetFetchResponsePartitions(
                        partition_index=each.partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in topics
        ),
        error_code=reply.error,
    )
