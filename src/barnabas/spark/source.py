"""Batch reads: `spark.read.format("barnabas")`, planned by the driver, done by tasks."""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from barnabas.spark.failures import WrongOption, plain_errors, told_plainly
from barnabas.spark.options import SourceOptions, include_headers
from barnabas.spark.ranges import OffsetRange, divide
from barnabas.spark.reading import ALL_TIMES, Times, read_range

RecordBatch = Any  # of pyarrow, which has no types

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " timestampType int"
)
HEADERS = ", headers array<struct<key: string, value: binary>>"


@told_plainly
def schema(options: Mapping[str, str]) -> str:
    """The columns of Spark's Kafka source. Raises WrongOption."""
    return COLUMNS + (HEADERS if include_headers(options) else "")


@told_plainly
def reader(options: Mapping[str, str], schema: StructType) -> "BatchReader":
    """Raises  WrongOption"""
    return BatchReader(SourceOptions.of(options, streaming=False), schema)


class BatchReader(DataSourceReader):
    """One read: the ranges of offsets are fixed when it is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._times = ALL_TIMES

    @told_plainly
    def partitions(self) -> list[OffsetRange]:
        return plan(self._options)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return arrow_batches(partition, self._options, self._schema, self._times)


def plan(options: SourceOptions) -> list[OffsetRange]:
    """What each task reads. Raises SparkFailure."""
    from barnabas.spark.cluster import Cluster  # tasks do not need it
    from barnabas.spark.planning import find_topics, partitions_of, resolve

    with Cluster(options) as cluster:
        topics = find_topics(cluster, options)
        chosen = partitions_of(topics, options)
        starts = resolve(cluster, options.starting, chosen, options)
        ends = resolve(cluster, options.ending, chosen, options)
    ranges = []
    for each in chosen:
        start, end = starts[each].offset, ends[each].offset
        if start > end:
            raise WrongOption(
                f"{each}: the read would begin at offset {start}, after its end, {end}"
            )
        topic = topics[each.topic]
        leader = topic.leaders[each.partition]
        ranges.append(OffsetRange(each, topic.topic_id, start, end, leader))
    return divide(ranges, options.min_partitions, options.max_records_per_partition)


def arrow_batches(
    wanted: InputPartition, options: SourceOptions, schema: StructType, times: Times
) -> Iterator[RecordBatch]:
    """A task's records as Spark takes them. Raises SparkFailure."""
    from barnabas.spark.arrow import Batches

    if not isinstance(wanted, OffsetRange):  # Spark's own, where no task was planned
        return
    batches = Batches(to_arrow_schema(schema, timezone="UTC"), *wanted.partition)
    with plain_errors():
        for taken in read_range(wanted, options, times):
            yield batches.batch(taken)
