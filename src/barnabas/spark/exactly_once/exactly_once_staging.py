"""The staging topic of a query: the output of its tasks, and its commit log.

Partition 0 is the commit log; the others hold the output of tasks. Retention deletes nothing:
records are deleted once they are published.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from barnabas.base.clock import Clock
from barnabas.client.aborted_batches import Batches
from barnabas.client.metadata import TopicInfo
from barnabas.client.retries import RetriableError, Steps
from barnabas.spark.exactly_once.exactly_once_log import Entry, QueryHistory, decode, encode
from barnabas.spark.side_topics import SINK_PREFIX
from barnabas.spark.sink.batch_sender import Sender
from barnabas.spark.sink.sink_cluster import create_topic, delete_records, delete_topic
from barnabas.spark.source.offset_ranges import OffsetRange
from barnabas.spark.source.partition_fetcher import PartitionFetcher
from barnabas.spark.source.source_options import EARLIEST, LATEST, SourceOptions, TopicPartition
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.wire.records.records import Record, build_batch, read_records

DECISIONS: Final = 0
DATA_PARTITIONS: Final = 8

_CONFIG: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": str(16 * 1024 * 1024),
    "segment.bytes": str(64 * 1024 * 1024),
}


class Staging:
    """The staging topic of one query; the first task with rows creates it."""

    def __init__(self, query: str, options: SourceOptions) -> None:
        self.topic = SINK_PREFIX + query
        self._options = options

    # -- the topic -----------------------------------------------------------

    def create(self) -> None:
        """Create the topic if it does not exist. Raises SparkFailure."""
        if self.found() is None:
            create_topic(self._options, self.topic, 1 + DATA_PARTITIONS, _CONFIG)

    def delete(self) -> None:
        """Delete the topic if possible."""
        if self.found() is not None:
            delete_topic(self._options, self.topic)

    def trim(self, topic: TopicInfo, before: Mapping[int, int]) -> None:
        """Delete the records before these offsets; if that fails, the next micro-batch does it."""
        delete_records(self._options, topic, before)

    def found(self) -> TopicInfo | None:
        with SparkCluster(self._options) as cluster:
            return cluster.topics((self.topic,)).get(self.topic)

    def awaited(self) -> TopicInfo:
        """The topic that tasks have written to; a broker may learn of it later than they did.

        Raises  SparkFailure, if it does not exist
        """
        with SparkCluster(self._options) as cluster:

            def attempt() -> Steps[TopicInfo]:
                found = yield from cluster.existing((self.topic,))
                if self.topic not in found:
                    raise RetriableError("")
                return found[self.topic]

            return cluster.until_settled(
                attempt,
                f"topic {self.topic} is gone, and with it what tasks wrote; it must not be deleted"
                " while its query may go on",
            )

    # -- its records ---------------------------------------------------------

    def history(self, topic: TopicInfo) -> tuple[QueryHistory, int]:
        """Replay the commit log; return the state, and the first offset that is still needed."""
        partition = TopicPartition(self.topic, DECISIONS)
        with SparkCluster(self._options) as cluster:
            start = cluster.offsets({partition: EARLIEST})[partition].offset
            end = cluster.offsets({partition: LATEST})[partition].offset
        history, needed_from = QueryHistory(), start
        for batches in self.read(topic, DECISIONS, start, end):
            for record in (record for _, batch in batches for record in read_records(batch)):
                before = history.published_id
                history.apply(decode(record.value or b""))
                if history.published_id != before:
                    needed_from = record.offset
        return history, needed_from

    def append(self, entry: Entry, clock: Clock) -> None:
        """Append to the commit log with acks=all. Raises SparkFailure."""
        record = Record(0, clock.now_ms(), None, encode(entry))
        with Sender(self._options) as sender:
            sender.send(TopicPartition(self.topic, DECISIONS), build_batch([record]))
            sender.flush()

    def read(self, topic: TopicInfo, partition: int, start: int, end: int) -> Iterator[Batches]:
        """Yield the batches in these offsets. Raises SparkFailure if they are missing."""
        wanted = OffsetRange(
            TopicPartition(self.topic, partition),
            topic.topic_id,
            start,
            end,
            topic.leader(partition),
        )
        with PartitionFetcher(wanted, self._options) as fetcher:
            yield from fetcher
