"""Which offsets each Spark task reads: the ranges of partitions, and how large ones are shared."""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from barnabas.client.metadata import Leader
from barnabas.spark.source.source_options import TopicPartition


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """From `start` to before `end`: what one task reads, and from whom, as the driver knew it."""

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
    """One range for each task; empty ones are left out.

    A range of more than `max_records` offsets is divided. If there are then fewer than
    `min_partitions`, the larger ones are divided further, each by its share of all offsets, so
    that there are about as many as asked for. This is how Spark's Kafka source divides.
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
