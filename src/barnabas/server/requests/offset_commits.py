"""The parts of OffsetCommit and TxnOffsetCommit that do not differ: what may be committed, and how
each partition fared."""

from collections.abc import Callable, Iterable
from typing import Protocol

from barnabas.base.errors import ErrorCode
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


def known_partitions(
    metadata: MetadataCache, topics: Iterable[CommittedTopic]
) -> set[tuple[str, int]]:
    """The partitions that exist when the request arrives; only these are committed."""
    return {
        (topic.name, each.partition_index)
        for topic in topics
        if (image := metadata.topic(topic.name)) is not None
        for each in topic.partitions
        if each.partition_index in image.partitions
    }


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
