"""The exactly-once writers: each micro-batch once, through task retries and driver restarts.

Tasks write to the query's staging topic. When all have finished, the driver appends to that topic
its decision which batches count, and then copies these to their topics. The decision is the commit
point: before it, everything can be discarded; after it, everything reaches the topics once,
whichever driver completes it. docs/spark.md describes every point of failure.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.taskcontext import TaskContext

from barnabas.base.clock import Clock, SystemClock
from barnabas.client.metadata import TopicInfo
from barnabas.spark.exactly_once.exactly_once_log import Decided, QueryHistory, Share, Staged
from barnabas.spark.exactly_once.exactly_once_publish import (
    already_there,
    publish,
    published,
    renewed,
)
from barnabas.spark.exactly_once.exactly_once_staging import DATA_PARTITIONS, DECISIONS, Staging
from barnabas.spark.sink.batch_sender import OutOfSequence, Sender, next_sequence, numbered
from barnabas.spark.sink.sink_batches import batches
from barnabas.spark.sink.sink_cluster import new_producer_id, partition_count
from barnabas.spark.sink.sink_options import SinkOptions
from barnabas.spark.sink.sink_rows import ArrowBatch, SinkColumns
from barnabas.spark.source.source_options import LATEST, SourceOptions, TopicPartition
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import SparkFailure, without_traceback

_QUERY_ID: Final = "sql.streaming.queryId"


class StagedMessage(WriterCommitMessage):
    """The commit message of a task: its query, and its output in the staging topic, if any."""

    def __init__(self, query: str, staged: Staged | None, record_counts: Sequence[int]) -> None:
        self.query = query
        self.staged = staged
        self.record_counts = record_counts  # of each batch


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    @without_traceback
    def write(self, iterator: Iterator[ArrowBatch]) -> StagedMessage:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        if context is None or not query:
            raise SparkFailure(
                "exactlyOnce needs the id of a streaming query, but this task has none"
            )
        return stage(query, context.partitionId(), self._options, self._columns, iterator)

    @without_traceback
    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:
        commit(_written(messages), batchId, self._options.connection, SystemClock())


class ExactlyOnceBatchWriter(DataSourceArrowWriter):
    """A batch write as a query with one micro-batch; its staging topic is deleted at the end."""

    def __init__(self, options: SinkOptions, columns: SinkColumns, write_id: str) -> None:
        self._options = options
        self._columns = columns
        self._write_id = write_id

    @without_traceback
    def write(self, iterator: Iterator[ArrowBatch]) -> StagedMessage:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        return stage(self._write_id, task, self._options, self._columns, iterator)

    @without_traceback
    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        commit(_written(messages), 0, self._options.connection, SystemClock())
        self.abort(messages)

    @without_traceback
    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        Staging(self._write_id, self._options.connection).delete()


def _written(messages: "Sequence[WriterCommitMessage | None]") -> list[StagedMessage]:
    return [each for each in messages if isinstance(each, StagedMessage)]


def stage(
    query: str, task: int, options: SinkOptions, columns: SinkColumns, rows: Iterator[ArrowBatch]
) -> StagedMessage:
    """Write the rows of a task to the staging topic, in batches that are published unchanged.

    Raises  SparkFailure; the staged batches never count then
    """
    connection = options.connection
    staging = Staging(query, connection)
    aside = TopicPartition(staging.topic, DECISIONS + 1 + task % DATA_PARTITIONS)
    offsets: list[int] = []
    targets: list[TopicPartition] = []
    counts: list[int] = []
    producer, sequence = None, 0
    with Sender(connection) as sender:
        for target, batch, count in batches(
            rows, columns, options, partial(partition_count, connection), SystemClock(), task
        ):
            if producer is None:
                staging.create()
                producer = new_producer_id(connection)
            sender.send(aside, numbered(batch, producer, sequence), offsets.append)
            sequence = next_sequence(sequence, count)
            targets.append(target)
            counts.append(count)
        sender.flush()
    if producer is None:
        return StagedMessage(query, None, ())
    end = offsets[-1] + counts[-1]
    staged = Staged(aside.partition, producer.number, offsets[0], end, tuple(targets))
    return StagedMessage(query, staged, counts)


def commit(
    written: Sequence[StagedMessage], batch_id: int, options: SourceOptions, clock: Clock
) -> None:
    """Publish the micro-batch exactly once, whatever earlier attempts did.

    Raises  SparkFailure; it is published in part or not at all then, and must be committed
            again: the first attempt that decides wins
    """
    if not written:
        return
    staging = Staging(written[0].query, options)
    mine = [each for each in written if each.staged is not None]
    topic = staging.awaited() if mine else staging.found()
    if topic is None:
        return  # no task of this query ever had a row
    history, lost = _finish(staging, topic, options, clock)
    if batch_id > history.published_id and mine:
        decided = new_decision(history, batch_id, mine, options)
        staging.append(decided, clock)
        history, more = _finish(staging, topic, options, clock, decided)
        lost += more
        if history.published_id < batch_id:
            raise SparkFailure(
                f"the decision about micro-batch {batch_id} in {staging.topic} is gone: the log was"
                " truncated; restart the query, which then writes the micro-batch"
            )
    if lost:
        raise SparkFailure(
            f"{', '.join(map(str, lost))} lost acknowledged records of earlier micro-batches: an"
            " unclean election truncated the log. These are not written again, but this"
            " micro-batch is; restart the query to continue"
        )


def new_decision(
    history: QueryHistory, batch_id: int, written: Sequence[StagedMessage], options: SourceOptions
) -> Decided:
    """The decision about a micro-batch, not appended yet. Raises SparkFailure."""
    counts: defaultdict[TopicPartition, int] = defaultdict(int)
    tasks = []
    for each in written:
        if each.staged is not None:
            tasks.append(each.staged)
            for target, count in zip(each.staged.targets, each.record_counts, strict=True):
                counts[target] += count
    with SparkCluster(options) as cluster:
        ends = cluster.offsets(dict.fromkeys(counts, LATEST))
    shares = tuple(
        Share(
            target,
            history.sequences.get(target, 0),
            count,
            ends[target].offset,
            history.own.get(target),
        )
        for target, count in counts.items()
    )
    return Decided(batch_id, history.producer or new_producer_id(options), tuple(tasks), shares)


def _finish(
    staging: Staging,
    topic: TopicInfo,
    options: SourceOptions,
    clock: Clock,
    mine: Decided | None = None,
) -> tuple[QueryHistory, list[TopicPartition]]:
    """Publish what is decided and not published; of `mine` nothing is published yet.

    Return the state after it, and the partitions that lost records of earlier micro-batches.
    """
    lost: list[TopicPartition] = []
    history, _ = staging.history(topic)
    while (decided := history.unpublished) is not None:
        try:
            there = {} if decided == mine else already_there(decided, options)
            publish(decided, staging, options, there)
            _conclude(history, staging, clock)
        except OutOfSequence as refused:
            revised = renewed(decided, refused.partition, options)
            if revised is None:
                raise
            staging.append(revised, clock)
            history, _ = staging.history(topic)
            if revised.share_of(refused.partition).own != decided.share_of(refused.partition).own:
                lost.append(refused.partition)
    return history, lost


def _conclude(history: QueryHistory, staging: Staging, clock: Clock) -> None:
    """Append that the micro-batch is published, and delete staged records."""
    decided = history.unpublished
    assert decided is not None, "nothing is decided"
    entry = published(decided, history)
    staging.append(entry, clock)
    history.apply(entry)
    unneeded: defaultdict[int, int] = defaultdict(int)
    for task in decided.tasks:
        unneeded[task.partition] = max(task.end, unneeded[task.partition])
    if (topic := staging.found()) is not None:
        _, unneeded[DECISIONS] = staging.history(topic)
        staging.trim(topic, unneeded)
