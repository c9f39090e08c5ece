"""The driver's side of a streaming read: where batches begin and end, and their task ranges."""

from typing import Any, Final

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from barnabas.base.clock import Stopwatch, machine_stopwatch
from barnabas.client.metadata import TopicInfo
from barnabas.spark.source.log_identity import check_end, check_start, validated
from barnabas.spark.source.offset_ranges import OffsetRange, available, divide, limited
from barnabas.spark.source.query_progress import Progress
from barnabas.spark.source.read_plan import find_topics, partitions_of, resolve
from barnabas.spark.source.source_options import (
    EARLIEST,
    LATEST,
    Bound,
    SourceOptions,
    TopicPartition,
)
from barnabas.spark.source.stream_offset import Position, Positions, from_json, to_json
from barnabas.spark.spark_cluster import SparkCluster

_TOPICS_AGE_NS: Final = 1_000_000_000  # a new topic or partition is noticed after that time at most
_NS_PER_MS: Final = 1_000_000
_EVERYTHING: Final = Bound("latest", LATEST)
_BEGINNING: Final = Bound("earliest", EARLIEST)


class Query:
    """The source of one streaming query: its connections and its view of the topics."""

    def __init__(self, options: SourceOptions, stopwatch: Stopwatch = machine_stopwatch) -> None:
        self._options = options
        self._stopwatch = stopwatch
        self._cluster = SparkCluster(options)
        self._progress = Progress(options.group_id)
        self._topics: dict[str, TopicInfo] = {}
        self._topics_until_ns: int | None = None
        self._latest: Positions | None = None
        self._end: Positions | None = None
        self._last_batch_ns: int | None = None

    def close(self) -> None:
        self._cluster.close()

    def initial(self) -> dict[str, Any]:
        """Return the start of a query without a checkpoint. Raises SparkFailure."""
        return to_json(self._resolve(self._options.starting))

    def latest(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch; `start` if there is nothing to read now.

        Raises  DataLoss if records before `start` were lost
        """
        begun = from_json(start)
        self._progress.done(begun, self._cluster)
        latest = self._latest = self._end or self._resolve(_EVERYTHING)
        valid = validated(self._cluster, self._current_topics(), begun, self._options, latest)
        known = self._with_new_partitions(valid, latest)
        ends = self._admitted(_offsets(known), _offsets(latest), limit)
        chosen = {each: latest[each].at(end) for each, end in ends.items()}
        for each, position in begun.items():
            if each in chosen and chosen[each].offset <= position.offset and each in valid:
                chosen[each] = self._unmoved(each, position, chosen[each], valid[each])
        return to_json(chosen)

    def last_seen(self) -> dict[str, Any] | None:
        return None if self._latest is None else to_json(self._latest)

    def fix_end(self) -> None:
        """End the query at the current ends of the topics. Raises SparkFailure."""
        self._end = self._resolve(_EVERYTHING)

    def ranges(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> tuple[list[OffsetRange], str | None]:
        """The offsets that tasks of one batch read, and the group that gets the query's name.

        Raises  DataLoss if a log is not the one that `start` and `end` refer to
        """
        begun, ended = from_json(start), from_json(end)
        if begun == ended:
            return [], None
        topics = self._current_topics()
        begun = validated(self._cluster, topics, begun, self._options, ended)
        ended = validated(self._cluster, topics, ended, self._options, {})
        begun = self._with_new_partitions(begun, ended)
        ranges = [
            OffsetRange(
                each,
                topics[each.topic].topic_id,
                begun[each].offset,
                position.offset,
                topics[each.topic].leader(each.partition),
            )
            for each, position in sorted(ended.items())
        ]
        divided = divide(
            ranges, self._options.min_partitions, self._options.max_records_per_partition
        )
        return divided, self._progress.token_group() if divided else None

    def done(self, end: dict[str, Any]) -> None:
        """Commit to the group that all records before `end` are processed."""
        self._progress.done(from_json(end), self._cluster)

    # -- topics and positions ------------------------------------------------

    def _current_topics(self) -> dict[str, TopicInfo]:
        now = self._stopwatch()
        if self._topics_until_ns is None or now > self._topics_until_ns:
            self._topics = find_topics(self._cluster, self._options)
            self._topics_until_ns = now + _TOPICS_AGE_NS
        return self._topics

    def _resolve(self, bound: Bound) -> Positions:
        topics = self._current_topics()
        found = resolve(self._cluster, bound, partitions_of(topics, self._options), self._options)
        return {
            each: Position(at.offset, at.epoch, topics[each.topic].topic_id)
            for each, at in found.items()
        }

    def _with_new_partitions(self, begun: Positions, ended: Positions) -> Positions:
        """Add partitions that are new since `begun`, from their beginning.

        Raises  DataLoss if records at the beginning are deleted already
        """
        new = [each for each in ended if each not in begun]
        if not new:
            return begun
        found = resolve(self._cluster, _BEGINNING, new, self._options)
        for each, at in found.items():
            check_start(each, at.offset, self._options)
        return begun | {each: Position(at.offset, at.epoch) for each, at in found.items()}

    def _unmoved(
        self, partition: TopicPartition, begun: Position, chosen: Position, valid: Position
    ) -> Position:
        """The position of a partition that the batch does not read: exactly the old one.

        Spark compares positions as text, so the epoch stays the same too.
        """
        if chosen.offset < valid.offset:
            check_end(partition, valid.offset, chosen.offset, self._options)
            return chosen
        return begun if valid == begun and begun.topic_id is not None else chosen

    # -- limits of a batch ---------------------------------------------------

    def _admitted(
        self,
        start: dict[TopicPartition, int],
        latest: dict[TopicPartition, int],
        limit: ReadLimit,
    ) -> dict[TopicPartition, int]:
        if isinstance(limit, ReadAllAvailable):
            return latest
        if self._end is None and self._must_wait(available(start, latest)):
            return {each: min(start[each], end) for each, end in latest.items()}
        self._last_batch_ns = self._stopwatch()
        if isinstance(limit, ReadMaxRows):
            return limited(start, latest, limit.max_rows)
        return latest

    def _must_wait(self, offsets: int) -> bool:
        """True if there are less than `minOffsetsPerTrigger` and `maxTriggerDelay` has not passed.

        As with Spark's Kafka source, the first batch does not wait.
        """
        least = self._options.min_offsets_per_trigger
        if least is None or offsets >= least or self._last_batch_ns is None:
            return False
        waited_ns = self._stopwatch() - self._last_batch_ns
        return waited_ns < self._options.max_trigger_delay_ms * _NS_PER_MS


def _offsets(positions: Positions) -> dict[TopicPartition, int]:
    return {each: position.offset for each, position in positions.items()}
