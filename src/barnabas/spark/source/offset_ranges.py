"""The offsets of a batch and of its tasks: limits, ranges, and the split of large ranges."""

import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from barnabas.client.metadata import Leader
from barnabas.spark.source.source_options import TopicPartition


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """The offsets [start, end) that a task reads, and the leader that the driver knew."""

    partition: TopicPartition
    topic_id: uuid.UUID
    start: int
    end: int
    leader: Leader | None

    @property
    def size(self) -> int:
        return self.end - self.start


def divide(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Return one range per task, without empty ranges.

    A range of more than `max_records` offsets is split. If fewer than `min_partitions` ranges
    result, large ranges are split further in proportion to their size, until there are about that
    many. Spark's Kafka source splits in the same way.
    """
    divided = [each for each in ranges if each.size > 0]
    if max_records is not None:
        divided = [part for each in divided for part in _parts(each, -(-each.size // max_records))]
    if min_partitions is None or min_partitions <= len(divided):
        return divided
    total = sum(each.size for each in divided)
    small = [each for each in divided if _share(each.size, total, min_partitions) == 1]
    large_total = total - sum(each.size for each in small)
    for_large = max(min_partitions - len(small), 1)
    return [
        part
        for each in divided
        for part in _parts(each, 1 if each in small else _share(each.size, large_total, for_large))
    ]


def _share(size: int, total: int, parts: int) -> int:
    return max(int(size / total * parts + 0.5), 1)


def _parts(whole: OffsetRange, count: int) -> Iterator[OffsetRange]:
    start = whole.start
    for part in range(count):
        end = start + (whole.end - start) // (count - part)
        if end > start:
            yield replace(whole, start=start, end=end)
        start = end


def limited(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], most: int
) -> dict[TopicPartition, int]:
    """The end of a batch of about `most` offsets.

    Each partition gets a share in proportion to its offsets, and at least one offset, so that small
    partitions do not starve. Spark's Kafka source shares in the same way.
    """
    sizes = {each: max(0, end - start.get(each, end)) for each, end in latest.items()}
    total = sum(sizes.values())
    if total < 1:
        return dict(latest)
    ends = {}
    for each, end in latest.items():
        share = most * sizes[each] / total
        ends[each] = min(end, end - sizes[each] + (math.ceil(share) if share < 1 else int(share)))
    return ends


def available(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    """The number of offsets from `start` to `latest`."""
    return sum(max(0, end - start.get(each, end)) for each, end in latest.items())
