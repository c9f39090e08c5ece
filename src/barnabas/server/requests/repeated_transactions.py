"""AddPartitionsToTxn and EndTxn as a producer sends them again with each transaction: a fast path.

A request is known by its bytes: it is decoded once, and so is its response written once. Only what
is decided without a wait is served here. All else is left to the handlers, as if it had come to
them at once: partitions with replicas to wait for, and EndTxn 5, which differs each time.
"""

from collections import Counter
from struct import Struct
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition, by_topic
from barnabas.server.cluster.metadata_cache import is_internal
from barnabas.server.metrics.request_statistics import RequestStatistics
from barnabas.server.transactions.fenced_errors import fenced_error
from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator
from barnabas.transactions.transaction_messages import AddPartitions, EndTransaction, Producer
from barnabas.transactions.transaction_records import FEW, SHORT_ID
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import (
    LONGEST_REPEATED,
    read_again,
    response_type,
    write_body,
)

_HEAD: Final = Struct(">ii")
_LAST_ADD: Final = 3  # later ones are of brokers, for several transactions
_LAST_END: Final = 4
_FENCED: Final = 2  # the first versions that know PRODUCER_FENCED
# Of a few partitions and a short id each, so they take little memory.
_REMEMBERED: Final = 1_000

Request: TypeAlias = AddPartitions | EndTransaction


class RepeatedTransactions:
    """Serves such requests with this broker's coordinator."""

    __slots__ = ("_known", "_statistics", "_transactions")

    def __init__(self, transactions: TransactionCoordinator, statistics: RequestStatistics) -> None:
        """`statistics` count the refusals."""
        self._transactions = transactions
        self._statistics = statistics
        # Requests that succeeded, each with its response behind the correlation id, oldest first.
        self._known: dict[tuple[int, int, bytes], tuple[Request, bytes]] = {}

    def serve(self, key: int, version: int, correlation_id: int, body: memoryview) -> bytes | None:
        """The response; None leaves it to the handler, and nothing was decided."""
        if len(body) > LONGEST_REPEATED:
            return None
        asked = key, version, bytes(body)
        request, response = self._known.get(asked) or (self._request(*asked), None)
        if request is None:
            return None
        code = (
            self._transactions.add_at_once(request)
            if isinstance(request, AddPartitions)
            else self._transactions.end_at_once(request)
        )
        if code is None:
            return None
        if code is not ErrorCode.none:
            response = self._refusal(request, version, code)
        elif response is None:
            response = _written(request, version, code)
            self._remember(asked, request, response)
        return _HEAD.pack(4 + len(response), correlation_id) + response

    def _request(self, key: int, version: int, body: bytes) -> Request | None:
        """None for one that is left to the handler."""
        if version > (_LAST_ADD if key == ApiKey.ADD_PARTITIONS_TO_TXN else _LAST_END):
            return None
        # Under the same key as the handler's, which reads it if it is not served here.
        sent, _ = read_again(ApiKey(key), version, body)
        transactional_id = (
            sent.v3_and_below_transactional_id
            if key == ApiKey.ADD_PARTITIONS_TO_TXN
            else sent.transactional_id
        )
        if not transactional_id or not self._transactions.replies_at_once(transactional_id):
            return None
        if key == ApiKey.ADD_PARTITIONS_TO_TXN:
            return _add(sent)
        producer = Producer(sent.producer_id, sent.producer_epoch)
        return EndTransaction(transactional_id, producer, sent.committed)

    def _refusal(self, request: Request, version: int, code: ErrorCode) -> bytes:
        code = fenced_error(code, version >= _FENCED)
        if isinstance(request, EndTransaction):  # of partitions errors are not counted
            self._statistics.add_errors(ApiKey.END_TXN, Counter((int(code),)))
        return _written(request, version, code)

    def _remember(self, asked: tuple[int, int, bytes], request: Request, response: bytes) -> None:
        partitions = request.partitions if isinstance(request, AddPartitions) else ()
        if len(partitions) > FEW or len(request.transactional_id) > SHORT_ID:
            return
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[asked] = request, response


def _add(sent: Any) -> AddPartitions | None:
    """None for a request that is refused."""
    topics = sent.v3_and_below_topics
    if any(is_internal(topic.name) for topic in topics):
        return None
    return AddPartitions(
        sent.v3_and_below_transactional_id,
        Producer(sent.v3_and_below_producer_id, sent.v3_and_below_producer_epoch),
        frozenset(
            TopicPartition(topic.name, partition)
            for topic in topics
            for partition in topic.partitions
        ),
    )


def _written(request: Request, version: int, code: ErrorCode) -> bytes:
    """The response behind the correlation id."""
    key = ApiKey.END_TXN
    response: object = SimpleNamespace(error_code=code)
    if isinstance(request, AddPartitions):
        key = ApiKey.ADD_PARTITIONS_TO_TXN
        response = SimpleNamespace(results_by_topic_v3_and_below=_topics(request, code))
    tags = b"\0" if version >= APIS[key].flexible else b""
    return tags + write_body(response_type(key, version), response)


def _topics(request: AddPartitions, code: ErrorCode) -> tuple[object, ...]:
    return tuple(
        SimpleNamespace(
            name=name,
            results_by_partition=tuple(
                SimpleNamespace(partition_index=each, partition_error_code=code) for each in indexes
            ),
        )
        for name, indexes in by_topic(sorted(request.partitions)).items()
    )
