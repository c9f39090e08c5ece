"""The offset of a streaming query: a position in each partition, as the checkpoint stores it.

Spark stores it as JSON:

    {"orders": {"id": "8d1e...", "partitions": {"0": {"offset": 42, "leaderEpoch": 3}}}}

The topic id detects a recreated topic, the leader epoch a truncated log. A checkpoint of Spark's
own Kafka source, {"orders": {"0": 42}}, is read too. It has neither, so both checks begin with the
second batch.
"""

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from barnabas.spark.source.source_options import TopicPartition
from barnabas.spark.user_errors import SparkFailure

UNKNOWN_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class Position:
    """An offset in a partition; `epoch` is its leader epoch, or a later one, -1 if unknown."""

    offset: int
    epoch: int = UNKNOWN_EPOCH
    topic_id: uuid.UUID | None = None

    def at(self, offset: int) -> "Position":
        """An earlier offset of the same log."""
        return replace(self, offset=offset)


Positions = dict[TopicPartition, Position]


def to_json(positions: Mapping[TopicPartition, Position]) -> dict[str, Any]:
    """The JSON for the checkpoint, in a fixed order because Spark compares the text."""
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
    """Parse a checkpoint. Raises SparkFailure if another kind of source wrote it."""
    try:
        return dict(_read(checkpoint))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise SparkFailure(
            "the checkpoint was not written by a query that reads topics; give this query its own"
            " checkpointLocation"
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


def lag_of(sources: Iterable[Any]) -> int | None:
    """The offsets between a query and the ends of its topics, from the progress of its sources.

    None if no source reports it.
    """
    lags = [_lag(source.endOffset, source.latestOffset) for source in sources]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None


def _lag(end: str | None, latest: str | None) -> int | None:
    ends, read = _offsets(latest), _offsets(end)
    if ends is None or read is None:
        return None
    return sum(max(0, offset - read.get(partition, 0)) for partition, offset in ends.items())


def _offsets(text: str | None) -> dict[TopicPartition, int] | None:
    try:
        return {each: at.offset for each, at in _read(json.loads(text or "null"))}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
