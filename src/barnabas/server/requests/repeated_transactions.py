"""AddPartitionsToTxn and EndTxn as a producer sends them again with each transaction: a fast path.

A request is known by its bytes: it is decoded once, and so is its response written once. Only what
succeeds without a wait is served here. All else is left to the handlers, as if it had come to them
at once: refusals, partitions with replicas to wait for, and EndTxn 5, which differs each time.
"""

from functools import lru_cache
from struct import Struct
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition, by_topic
from barnabas.server.cluster.metadata_cache import is_internal
from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator
from barnabas.transactions.transaction_messages import AddPartitions, EndTransaction, Producer
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import LONGEST_REPEATED, read_again, response_type, write_body

_HEAD: Final = Struct(">ii")
_LAST_ADD: Final = 3  # later ones are of brokers, for several transactions
_LAST_END: Final = 4
_REMEMBERED: Final = 10_000


class _Add(NamedTuple):
    request: AddPartitions
    response: bytes  # behind the correlation id


class _End(NamedTuple):
    request: EndTransaction
    response: bytes


class RepeatedTransactions:
    """Serves such requests with this broker's coordinator."""

    __slots__ = ("_transactions",)

    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def serve(self, key: int, version: int, correlation_id: int, body: memoryview) -> bytes | None:
        """The response; None leaves it to the handler, and nothing was done."""
        if len(body) > LONGEST_REPEATED:
            return None
        response = (
            self._add(version, bytes(body))
            if key == ApiKey.ADD_PARTITIONS_TO_TXN
            else self._end(version, bytes(body))
        )
        if response is None:
            return None
        return _HEAD.pack(4 + len(response), correlation_id) + response

    def _add(self, version: int, body: bytes) -> bytes | None:
        known = _add(version, body) if version <= _LAST_ADD else None
        if known is None or not self._transactions.add_at_once(known.request):
            return None
        return known.response

    def _end(self, version: int, body: bytes) -> bytes | None:
        known = _end(version, body) if version <= _LAST_END else None
        if known is None or not self._transactions.end_at_once(known.request):
            return None
        return known.response


@lru_cache(_REMEMBERED)
def _add(version: int, body: bytes) -> _Add | None:
    """None for a request that is refused, or that may be."""
    sent, _ = read_again(ApiKey.ADD_PARTITIONS_TO_TXN, version, body)
    partitions = frozenset(
        TopicPartition(topic.name, partition)
        for topic in sent.v3_and_below_topics
        for partition in topic.partitions
    )
    transactional_id = sent.v3_and_below_transactional_id
    if not transactional_id or any(is_internal(each.topic) for each in partitions):
        return None
    producer = Producer(sent.v3_and_below_producer_id, sent.v3_and_below_producer_epoch)
    topics = tuple(
        SimpleNamespace(
            name=name,
            results_by_partition=tuple(
                SimpleNamespace(partition_index=each, partition_error_code=ErrorCode.none)
                for each in indexes
            ),
        )
        for name, indexes in by_topic(sorted(partitions)).items()
    )
    response = SimpleNamespace(results_by_topic_v3_and_below=topics)
    return _Add(
        AddPartitions(transactional_id, producer, partitions),
        _written(ApiKey.ADD_PARTITIONS_TO_TXN, version, response),
    )


@lru_cache(_REMEMBERED)
def _end(version: int, body: bytes) -> _End | None:
    sent, _ = read_again(ApiKey.END_TXN, version, body)
    if not sent.transactional_id:
        return None
    producer = Producer(sent.producer_id, sent.producer_epoch)
    return _End(
        EndTransaction(sent.transactional_id, producer, sent.committed),
        _written(ApiKey.END_TXN, version, SimpleNamespace(error_code=ErrorCode.none)),
    )


def _written(key: ApiKey, version: int, response: Any) -> bytes:
    tags = b"\0" if version >= APIS[key].flexible else b""
    return tags + write_body(response_type(key, version), response)
