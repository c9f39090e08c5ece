"""OffsetFetch (9): the committed offsets of groups.

Version notes. Version 0 is another API: see `offset_fetch_v0`. Up to version 7 one group is asked
for; from 8 on several. From 2 on null topics ask for all, and there is an error for the whole; from
7 on open transactions can be waited for; from 9 on a member of a consumer group is checked by its
epoch.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from kio.schema.offset_fetch.v9.request import OffsetFetchRequest
from kio.schema.offset_fetch.v9.response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import AT_ONCE, Turns
from barnabas.coordinator.result import CoordinatorResult, Now
from barnabas.groups.offsets.offset_messages import (
    AskedTopic,
    FetchedOffset,
    FetchedTopic,
    FetchReply,
)
from barnabas.groups.shard import GroupCoordinatorShard
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.access import Access
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """The response in both forms: for one group, and for several."""

    groups: tuple[OffsetFetchResponseGroup, ...]
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode
    throttle_time: timedelta = NO_THROTTLE


async def handle(broker: Broker, request: OffsetFetchRequest, call: Call) -> FetchedOffsets:
    asked = request.groups if call.version >= 8 else (call.sent,)
    turns, named = Turns(), Counter(group.group_id for group in asked)
    groups = tuple(
        [
            await _told(
                group,
                await _fetch(broker, group, request.require_stable, call.access, turns)
                if named[group.group_id] == 1
                else FetchReply(error=ErrorCode.invalid_request),
                call.version,
                turns,
            )
            async for group in turns.each(asked)
        ]
    )
    first = groups[0] if groups else None
    return FetchedOffsets(
        groups,
        first.topics if first is not None else (),
        first.error_code if first is not None else ErrorCode.invalid_request,
    )


async def _fetch(
    broker: Broker, asked: Any, require_stable: bool, access: Access, turns: Turns
) -> FetchReply:
    if not access.may(Operation.DESCRIBE, ResourceType.GROUP, asked.group_id):
        return FetchReply(error=ErrorCode.group_authorization_failed)
    refused: list[FetchedTopic] = []
    parts: Iterable[list[AskedTopic] | None] = (None,)
    if asked.topics is not None:
        named = await _named(asked.topics, turns)
        may = {topic: _may_describe(access, topic) for topic in named}
        parts = _parts([(topic, tuple(named[topic])) for topic in named if may[topic]])
        refused = [
            FetchedTopic(topic, [_refused(index) for index in named[topic]])
            for topic in named
            if not may[topic]
        ]
    member_id, member_epoch = getattr(asked, "member_id", None), getattr(asked, "member_epoch", -1)
    found: dict[str, list[FetchedOffset]] = {}
    async for part in turns.each(parts, AT_ONCE):
        fetch = partial(_of_shard, asked.group_id, part, member_id, member_epoch, require_stable)
        try:
            reply = await broker.groups.ask(asked.group_id, fetch)
        except BrokerError as e:
            return FetchReply(error=e.code)
        if reply.error is not ErrorCode.none:
            return reply
        for topic, offsets in reply.topics:
            found.setdefault(topic, []).extend(offsets)
    topics = [FetchedTopic(*each) for each in found.items() if _may_describe(access, each[0])]
    return FetchReply([*topics, *refused])


def _of_shard(
    group_id: str,
    topics: list[AskedTopic] | None,
    member_id: str | None,
    member_epoch: int,
    require_stable: bool,
    shard: GroupCoordinatorShard,
    _: Now,
) -> CoordinatorResult[FetchReply]:
    return CoordinatorResult(
        shard.offsets.fetch(group_id, topics, member_id, member_epoch, require_stable)
    )


async def _named(topics: Iterable[Any], turns: Turns) -> dict[str, dict[int, None]]:
    """Each partition once, however often it is named: an offset may have 4 KB of metadata."""
    named: dict[str, dict[int, None]] = {}
    async for topic in turns.each(topics):
        known = named.setdefault(topic.name, {})
        async for index in turns.each(topic.partition_indexes):
            known[index] = None
    return named


def _parts(topics: Iterable[tuple[str, tuple[int, ...]]]) -> Iterator[list[AskedTopic]]:
    """So many partitions at a time that the loop is soon free again; mostly that is all."""
    part: list[AskedTopic] = []
    size = 0
    for topic, partitions in topics:
        for start in range(0, max(1, len(partitions)), AT_ONCE):
            some = partitions[start : start + AT_ONCE]
            if size + len(some) > AT_ONCE:
                yield part
                part, size = [], 0
            part.append(AskedTopic(topic, some))
            size += len(some)
    yield part


def _refused(index: int) -> FetchedOffset:
    return FetchedOffset(index, error=ErrorCode.topic_authorization_failed)


def _may_describe(access: Access, topic: str) -> bool:
    return access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)


async def _told(
    asked: Any, reply: FetchReply, version: int, turns: Turns
) -> OffsetFetchResponseGroup:
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
            [
                OffsetFetchResponseTopics(
                    name=topic.topic,
                    partitions=tuple(
                        [
                            OffsetFetchResponsePartitions(
                                partition_index=each.partition,
                                committed_offset=each.offset,
                                committed_leader_epoch=each.leader_epoch,
                                metadata=each.metadata,
                                error_code=each.error,
                            )
                            async for each in turns.each(topic.partitions)
                        ]
                    ),
                )
                async for topic in turns.each(topics)
            ]
        ),
        error_code=reply.error,
    )
