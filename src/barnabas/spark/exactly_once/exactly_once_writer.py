"""Writes each micro-batch of a query exactly once, through task retries and restarts of the driver.

Tasks write aside, into a topic of the query's own. When all of them are done, the driver notes
there which of what was written counts, and then copies that into the topics. The note is what
decides: before it, all can be thrown away; after it, all will be in the topics, once, whoever
finishes it. docs/spark.md tells what happens at every point of failure.
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
from barnabas.spark.exactly_once.exactly_once_log import Decided, History, Share, Staged
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
from barnabas.spark.sink.sink_rows import ArrowBatch, Columns
from barnabas.spark.source.source_options import LATEST, SourceOptions, TopicPartition
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import SparkFailure, told_plainly

_QUERY_ID: Final = "sql.streaming.queryId"


class WrittenAside(WriterCommitMessage):
    """What a task tells the driver: whose query it is, and what it wrote aside, if anything."""

    def __init__(self, query: str, staged: Staged | None, record_counts: Sequence[int]) -> None:
        self.query = query
        self.staged = staged
        self.record_counts = record_counts  # of each batch


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    @told_plainly
    def write(self, iterator: Iterator[ArrowBatch]) -> WrittenAside:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        if context is None or not query:
            raise SparkFailure("exactlyOnce needs a streaming query's id, and this task has none")
        return write_aside(query, context.partitionId(), self._options, self._columns, iterator)

    @told_plainly
    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:
        commit(_written(messages), batchId, self._options.connection, SystemClock())


class ExactlyOnceBatchWriter(DataSourceArrowWriter):
    """One write as a query of one micro-batch; nothing of it is left when it has ended."""

    def __init__(self, options: SinkOptions, columns: Columns, write_id: str) -> None:
        self._options = options
        self._columns = columns
        self._write_id = write_id

    @told_plainly
    def write(self, iterator: Iterator[ArrowBatch]) -> WrittenAside:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        return write_aside(self._write_id, task, self._options, self._columns, iterator)

    @told_plainly
    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        commit(_written(messages), 0, self._options.connection, SystemClock())
        self.abort(messages)

    @told_plainly
    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        Staging(self._write_id, self._options.connection).delete()


def _written(messages: "Sequence[WriterCommitMessage | None]") -> list[WrittenAside]:
    return [each for each in messages if isinstance(each, WrittenAside)]


def write_aside(
    query: str, task: int, options: SinkOptions, columns: Columns, rows: Iterator[ArrowBatch]
) -> WrittenAside:
    """Put all rows of a task into the query's topic, whole batches as they will be published.

    Raises  SparkFailure; what was written then counts for nothing
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
        return WrittenAside(query, None, ())
    end = offsets[-1] + counts[-1]
    staged = Staged(aside.partition, producer.number, offsets[0], end, tuple(targets))
    return WrittenAside(query, staged, counts)


def commit(
    written: Sequence[WrittenAside], batch_id: int, options: SourceOptions, clock: Clock
) -> None:
    """Have the micro-batch in its topics once, whatever happened to it before.

    Raises  SparkFailure; then it is not, or only in part, in its topics, and has to be committed
            again: the attempt that is first to decide is the one that counts
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
        decided = decide(history, batch_id, mine, options)
        staging.append(decided, clock)
        history, more = _finish(staging, topic, options, clock, decided)
        lost += more
        if history.published_id < batch_id:
            raise SparkFailure(
                f"what was noted about micro-batch {batch_id} in {staging.topic} is gone: its log"
                " was truncated; start the query again, which writes the micro-batch then"
            )
    if lost:
        raise SparkFailure(
            f"{', '.join(map(str, lost))} lost records of earlier micro-batches, which were"
            " acknowledged: an unclean election has cut the log. They are not written again; what"
            " came after them is, and the query goes on when it is started again"
        )


def decide(
    history: History, batch_id: int, written: Sequence[WrittenAside], options: SourceOptions
) -> Decided:
    """What the micro-batch is to consist of; nothing is noted yet. Raises SparkFailure."""
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
) -> tuple[History, list[TopicPartition]]:
    """Publish what is decided, as far as another attempt had not come; nothing is of `mine`.

    Returns the history after it, and the partitions that lack what was published before.
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


def _conclude(history: History, staging: Staging, clock: Clock) -> None:
    """Note that all that is decided is published, and delete what is needed no more."""
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
