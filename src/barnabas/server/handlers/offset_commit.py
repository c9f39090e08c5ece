"""OffsetCommit (8): commits the offsets of a group.

Version notes. Version 0 is another API: see `offset_commit_v0`. Version 1 has a timestamp for each
offset, from which its retention counts. Versions 2 to 4 have a retention time; version 6 added the
leader epoch; from 7 on members may be static; from 9 on the generation may be the epoch of a member
of a consumer group, and a group that does not exist has its own error.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from kio.schema.offset_commit.v9.request import OffsetCommitRequest
from kio.schema.offset_commit.v9.response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.groups.classic.classic_messages import CommitClaim
from barnabas.groups.offsets.committed_offsets import NO_RETENTION
from barnabas.groups.offsets.offset_messages import OffsetsReply, PartitionCommit, TopicCommits
from barnabas.groups.records.offset_record import NO_TIMESTAMP
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.offset_commits import error_codes, known_partitions
from barnabas.wire.schema import NO_THROTTLE, milliseconds

_UNSET: Final = timedelta(milliseconds=-1)


async def handle(broker: Broker, request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    known = await known_partitions(broker.metadata, request.topics)
    turns = Turns()
    topics = [
        TopicCommits(
            topic.name,
            [
                PartitionCommit(
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                    getattr(sent, "commit_timestamp", NO_TIMESTAMP),
                )
                async for each, sent in turns.each(
                    zip(topic.partitions, sent_topic.partitions, strict=True)
                )
                if (topic.name, each.partition_index) in known
            ],
        )
        async for topic, sent_topic in turns.each(
            zip(request.topics, call.sent.topics, strict=True)
        )
    ]
    reply = await _commit(broker, request, call, topics)
    return await _response(request, error_codes(reply, known))


async def _commit(
    broker: Broker, request: OffsetCommitRequest, call: Call, topics: list[TopicCommits]
) -> OffsetsReply:
    claim = CommitClaim(
        request.group_id,
        request.member_id,
        request.generation_id_or_member_epoch,
        request.group_instance_id,
        knows_group_id_not_found=call.version >= 9,
    )
    retention = getattr(call.sent, "retention_time", _UNSET)
    retention_ms = NO_RETENTION if retention < timedelta(0) else milliseconds(retention)
    try:
        return await broker.groups.ask(
            request.group_id,
            lambda shard, now: shard.offsets.commit(claim, topics, now, retention_ms),
        )
    except BrokerError as e:
        return OffsetsReply(error=e.code)


async def _response(
    request: OffsetCommitRequest, code_of: Callable[[str, int], ErrorCode]
) -> OffsetCommitResponse:
    turns = Turns()
    return OffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        [
                            OffsetCommitResponsePartition(
                                partition_index=each.partition_index,
                                error_code=code_of(topic.name, each.partition_index),
                            )
                            async for each in turns.each(topic.partitions)
                        ]
                    ),
                )
                async for topic in turns.each(request.topics)
            ]
        ),
    )
