"""Where a streaming query stands: an offset in each partition, in a form that survives restarts.

Spark keeps it in the checkpoint, as JSON:

    {"orders": {"id": "8d1e...", "partitions": {"0": {"offset": 42, "leaderEpoch": 3}}}}

The topic's id tells whether the topic is still the same one, the leader epoch whether the log up
to the offset is. A checkpoint of Spark's own Kafka source, {"orders": {"0": 42}}, is read too: it
knows neither, so nothing can be noticed by them until the first batch is done.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from barnabas.spark.source.source_options import TopicPartition
from barnabas.spark.user_errors import SparkFailure

UNKNOWN_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class Position:
    """An offset of a partition; `epoch` is that of the log there, or later, -1 if unknown."""

    offset: int
    epoch: int = UNKNOWN_EPOCH
    topic_id: uuid.UUID | None = None

    def at(self, offset: int) -> "Position":
        """Another offset of the same log, before this one."""
        return replace(self, offset=offset)


Positions = dict[TopicPartition, Position]


def to_json(positions: Mapping[TopicPartition, Position]) -> dict[str, Any]:
    """As the checkpoint keeps it; the order is always the same, for Spark compares the text."""
    topics: dict[str, Any] = {}
    for partition, position in sorted(positions.items()):
        topic = topics.setdefault(
            partition.topic,
            {"id": str(position.topic_id) if position.topic_id else None, "partitions": {}},
        )
        topic["partitions"][str(partition.partition)] = {
            "offset": position.offset,
            "leaderEpoch": position.epoch,
        }
    return topics


def from_json(checkpoint: Mapping[str, Any]) -> Positions:
    """What a checkpoint says. Raises SparkFailure, if no source of topics wrote it."""
    try:
        return dict(_read(checkpoint))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise SparkFailure(
            "the checkpoint was not written by a query that reads topics; give this query a"
            " checkpointLocation of its own"
        ) from None


def _read(checkpoint: Mapping[str, Any]) -> Iterable[tuple[TopicPartition, Position]]:
    for topic, content in checkpoint.items():
        if "partitions" not in content:
            for partition, offset in content.items():
                yield TopicPartition(topic, int(partition)), Position(int(offset))
            continue
        topic_id = uuid.UUID(content["id"]) if content["id"] else None
        for partition, at in content["partitions"].items():
            yield (
                TopicPartition(topic, int(partition)),
                Position(int(at["offset"]), int(at["leaderEpoch"]), topic_id),
            )
