"""A streaming query as its source sees it: where it stands, what is there, what a batch takes."""

from typing import Any, Final

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from barnabas.base.clock import Stopwatch, machine_stopwatch
from barnabas.client.metadata import TopicInfo
from barnabas.spark.source.admission import available, limited
from barnabas.spark.source.log_identity import begins_late, has_lost, still_valid
from barnabas.spark.source.offset_ranges import OffsetRange, divide
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

_TOPICS_AGE_NS: Final = 1_000_000_000  # how long a new topic or partition may go unnoticed
_NS_PER_MS: Final = 1_000_000
_EVERYTHING: Final = Bound("latest", LATEST)
_BEGINNING: Final = Bound("earliest", EARLIEST)


class Query:
    """Holds the connections of a query's source, and what it has seen of its topics."""

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
        """Where a query without a checkpoint begins. Raises SparkFailure."""
        return to_json(self._resolve(self._options.starting))

    def latest(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` itself if there is nothing to take now.

        Raises  DataLoss, if what was read up to `start` is not there any more
        """
        begun = from_json(start)
        self._progress.done(begun, self._cluster)
        latest = self._latest = self._end or self._resolve(_EVERYTHING)
        valid = still_valid(self._cluster, self._current_topics(), begun, self._options, latest)
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
        """Take what is there now for all there will be. Raises SparkFailure."""
        self._end = self._resolve(_EVERYTHING)

    def ranges(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> tuple[list[OffsetRange], str | None]:
        """What the tasks of one batch read, and the group in which one hands over the query's name.

        Raises  DataLoss, if the log is not the one that `start` and `end` were taken of
        """
        begun, ended = from_json(start), from_json(end)
        if begun == ended:
            return [], None
        topics = self._current_topics()
        begun = still_valid(self._cluster, topics, begun, self._options, ended)
        ended = still_valid(self._cluster, topics, ended, self._options, {})
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
        """All before `end` is processed."""
        self._progress.done(from_json(end), self._cluster)

    # -- what there is -------------------------------------------------------

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
        """With those that came since, from their beginning on.

        Raises  DataLoss, if that is gone already
        """
        new = [each for each in ended if each not in begun]
        if not new:
            return begun
        found = resolve(self._cluster, _BEGINNING, new, self._options)
        for each, at in found.items():
            begins_late(each, at.offset, self._options)
        return begun | {each: Position(at.offset, at.epoch) for each, at in found.items()}

    def _unmoved(
        self, partition: TopicPartition, begun: Position, chosen: Position, valid: Position
    ) -> Position:
        """Where a partition stays of which nothing is taken: exactly where it was.

        Spark takes two ends for the same by their text, so the epoch stays as well.
        """
        if chosen.offset < valid.offset:
            has_lost(partition, valid.offset, chosen.offset, self._options)
            return chosen
        return begun if valid == begun and begun.topic_id is not None else chosen

    # -- what a batch takes --------------------------------------------------

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
        """Whether there is less than `minOffsetsPerTrigger`, and `maxTriggerDelay` is not over.

        As with Spark's Kafka source, the first batch does not wait.
        """
        least = self._options.min_offsets_per_trigger
        if least is None or offsets >= least or self._last_batch_ns is None:
            return False
        waited_ns = self._stopwatch() - self._last_batch_ns
        return waited_ns < self._options.max_trigger_delay_ms * _NS_PER_MS


def _offsets(positions: Positions) -> dict[TopicPartition, int]:
    return {each: position.offset for each, position in positions.items()}
