"""The parts of OffsetCommit and TxnOffsetCommit that do not differ: what may be committed, and how
each partition fared."""

from collections.abc import Callable, Iterable
from typing import Protocol

from barnabas.base.errors import ErrorCode
from barnabas.base.turns import Turns
from barnabas.groups.offsets.offset_messages import OffsetsReply
from barnabas.server.cluster.metadata_cache import MetadataCache


class CommittedPartition(Protocol):
    @property
    def partition_index(self) -> int: ...


class CommittedTopic(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Iterable[CommittedPartition]: ...


async def known_partitions(
    metadata: MetadataCache, topics: Iterable[CommittedTopic]
) -> set[tuple[str, int]]:
    """The partitions of a request that exist; only these are committed."""
    turns = Turns()
    known: set[tuple[str, int]] = set()
    async for topic in turns.each(topics):
        image = metadata.topic(topic.name)
        async for each in turns.each(topic.partitions):
            if image is not None and each.partition_index in image.partitions:
                known.add((topic.name, each.partition_index))
    return known


def error_codes(
    reply: OffsetsReply, known: set[tuple[str, int]]
) -> Callable[[str, int], ErrorCode]:
    """The error code of each partition in the response."""
    codes = {
        (topic, partition): code
        for topic, partitions in reply.topics
        for partition, code in partitions
    }

    def code_of(topic: str, partition: int) -> ErrorCode:
        if (topic, partition) not in known:
            return ErrorCode.unknown_topic_or_partition
        return codes.get((topic, partition), reply.error)

    return code_of
