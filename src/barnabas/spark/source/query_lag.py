"""How much of its topics a streaming query has not read yet, by what Spark tells of it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any


def lag_of(sources: Iterable[Any]) -> int | None:
    """Offsets between where the query is and where its topics end; None if no source tells."""
    lags = [_lag(source.endOffset, source.latestOffset) for source in sources]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None


def _lag(end: str | None, latest: str | None) -> int | None:
    there, read = _offsets(latest), _offsets(end)
    if there is None or read is None:
        return None
    return sum(max(0, offset - read.get(key, 0)) for key, offset in there.items())


def _offsets(text: str | None) -> dict[tuple[str, str], int] | None:
    """Offsets by topic and partition, as our source and Spark's own for Kafka write them."""
    try:
        topics = json.loads(text or "null")
        return {
            (topic, number): int(at["offset"] if isinstance(at, Mapping) else at)
            for topic, each in topics.items()
            for number, at in each.get("partitions", each).items()
        }
    except (ValueError, AttributeError, KeyError, TypeError):
        return None
