"""The targets of transaction markers, and what the answer of a leader means for its partition."""

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.server.cluster.metadata_cache import MetadataCache


class MarkerOutcome(enum.Enum):
    WRITTEN = "the partition has its marker, or cannot have data of the transaction"
    RETRY = "the marker is sent again, to the leader of then"
    STOP = "another coordinator or a later producer epoch is at work"


OUTCOMES: Final[Mapping[ErrorCode, MarkerOutcome]] = {
    ErrorCode.none: MarkerOutcome.WRITTEN,
    ErrorCode.unsupported_for_message_format: MarkerOutcome.WRITTEN,
    ErrorCode.unsupported_version: MarkerOutcome.WRITTEN,
    ErrorCode.invalid_producer_epoch: MarkerOutcome.STOP,
    ErrorCode.transaction_coordinator_fenced: MarkerOutcome.STOP,
}


def outcome_of(code: ErrorCode) -> MarkerOutcome:
    return OUTCOMES.get(code, MarkerOutcome.RETRY)


class MarkerTargets(NamedTuple):
    """Partitions by the live broker that leads them; those that wait for one; those deleted."""

    led: Mapping[BrokerId, frozenset[TopicPartition]]
    leaderless: frozenset[TopicPartition]
    deleted: frozenset[TopicPartition]


def decide_targets(metadata: MetadataCache, partitions: Iterable[TopicPartition]) -> MarkerTargets:
    """Where the markers go now: partitions are looked up by name each time that they are sent.

    A partition that the cluster does not have was deleted with its topic. A broker that does not
    know the whole cluster yet waits instead.
    """
    led: dict[BrokerId, set[TopicPartition]] = {}
    leaderless, deleted = set(), set()
    for each in sorted(partitions):
        topic = metadata.topic(each.topic)
        image = None if topic is None else topic.partitions.get(each.partition)
        if image is None and metadata.is_complete:
            deleted.add(each)
        elif image is None or not metadata.is_alive(image.leader):
            leaderless.add(each)
        else:
            led.setdefault(image.leader, set()).add(each)
    return MarkerTargets(
        {leader: frozenset(some) for leader, some in led.items()},
        frozenset(leaderless),
        frozenset(deleted),
    )
