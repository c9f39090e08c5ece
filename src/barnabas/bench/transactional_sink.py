"""An exactly-once sink by Kafka's transactions, to compare with the sink of the package.

Each task writes to the topics in a transaction of its own, and leaves it open; the driver then
commits the transactions one after the other, with the producer id and epoch of each task. Decision
30 says why this is not exactly once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from barnabas.base.clock import SystemClock
from barnabas.base.errors import ErrorCode
from barnabas.client.coordinator import TRANSACTION, ask_coordinator
from barnabas.client.metadata import fields
from barnabas.client.retries import RetriableError, Steps, error_words, within
from barnabas.spark.sink.batch_sender import ProducerId, Sender, next_sequence, numbered
from barnabas.spark.sink.sink_batches import batches
from barnabas.spark.sink.sink_cluster import partition_count
from barnabas.spark.sink.sink_options import SinkOptions
from barnabas.spark.sink.sink_rows import ArrowBatch, SinkColumns
from barnabas.spark.source.source_options import SourceOptions, TopicPartition
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import duration

_WITHIN_S: Final = 60.0
_ATTRIBUTES_AT: Final = 22
_TRANSACTIONAL: Final = 0x10
_RETRIED: Final = (ErrorCode.concurrent_transactions,)


class Prepared(NamedTuple):
    """The open transaction of a task, which the driver can end."""

    transactional_id: str
    producer: ProducerId


def prepare(
    name: str,
    task: int,
    options: SinkOptions,
    columns: SinkColumns,
    rows: Iterator[ArrowBatch],
    timeout_ms: int = 60_000,
) -> Prepared:
    """Write the rows of a task in a transaction, and leave it open. Raises SparkFailure."""
    connection = options.connection
    transaction = _begin(f"{name}-{task}", connection, timeout_ms)
    counts = partial(partition_count, connection)
    sequences: defaultdict[TopicPartition, int] = defaultdict(int)
    with Sender(connection, transactional_id=transaction.transactional_id) as sender:
        for target, batch, count in batches(rows, columns, options, counts, SystemClock(), task):
            if target not in sequences:
                _add(transaction, target, connection)
            batch[_ATTRIBUTES_AT] |= _TRANSACTIONAL
            sender.send(target, numbered(batch, transaction.producer, sequences[target]))
            sequences[target] = next_sequence(sequences[target], count)
        sender.flush()
    return transaction


def commit(transactions: Iterable[Prepared], options: SourceOptions) -> None:
    """Commit one after the other. Raises SparkFailure; those before it are committed then."""
    for each in transactions:
        _ask(
            each.transactional_id,
            ApiKey.END_TXN,
            options,
            producer_id=each.producer.number,
            producer_epoch=each.producer.epoch,
            committed=True,
        )


def _begin(name: str, options: SourceOptions, timeout_ms: int) -> Prepared:
    given = _ask(
        name,
        ApiKey.INIT_PRODUCER_ID,
        options,
        transaction_timeout=duration(timeout_ms),
        producer_id=-1,
        producer_epoch=-1,
    )
    return Prepared(name, ProducerId(given.producer_id, given.producer_epoch))


def _add(transaction: Prepared, partition: TopicPartition, options: SourceOptions) -> None:
    _ask(
        transaction.transactional_id,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        options,
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=transaction.producer.number,
        v3_and_below_producer_epoch=transaction.producer.epoch,
        v3_and_below_topics=(fields(name=partition.topic, partitions=(partition.partition,)),),
    )


def _ask(name: str, key: ApiKey, options: SourceOptions, **message: object) -> Any:
    """The coordinator's response; raises SparkFailure if it is an error."""
    with SparkCluster(options) as cluster:
        request = fields(transactional_id=name, **message)

        def attempt() -> Steps[Any]:
            response = yield from ask_coordinator(
                cluster.metadata, name, key, request, within(_WITHIN_S), _error, kind=TRANSACTION
            )
            if (code := _error(response)) in _RETRIED:
                raise RetriableError(error_words(code))
            return response

        response = cluster.until_settled(attempt, f"the transaction {name} cannot go on")
    if (code := _error(response)) is not ErrorCode.none:
        raise SparkFailure(f"{key.name} of {name}: {error_words(code)}")
    return response


def _error(response: Any) -> ErrorCode:
    codes = [
        each.partition_error_code
        for topic in getattr(response, "results_by_topic_v3_and_below", ())
        for each in topic.results_by_partition
    ]
    code: ErrorCode = getattr(response, "error_code", ErrorCode.none)
    return next((each for each in (code, *codes) if each is not ErrorCode.none), ErrorCode.none)
