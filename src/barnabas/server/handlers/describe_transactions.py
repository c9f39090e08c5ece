"""DescribeTransactions (65): the state of transactional ids that this broker coordinates."""

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import by_topic
from barnabas.base.turns import Turns
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.access import Access
from barnabas.server.requests.dispatch import Call
from barnabas.transactions.transaction_metadata import TransactionMetadata
from barnabas.wire.control.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: DescribeTransactionsRequest, call: Call
) -> DescribeTransactionsResponse:
    turns = Turns()
    # An id that is named twice is in the response once.
    named = dict.fromkeys(request.transactional_ids)
    return DescribeTransactionsResponse(
        throttle_time=NO_THROTTLE,
        transaction_states=tuple(
            [_describe(broker, n, call.access) async for n in turns.each(named)]
        ),
    )


def _describe(broker: Broker, transactional_id: str, access: Access) -> DescribedTransaction:
    if not transactional_id:
        return _failed(transactional_id, ErrorCode.invalid_request)
    try:
        metadata = broker.transactions.describe(transactional_id)
    except BrokerError as e:
        return _failed(transactional_id, e.code)
    if metadata is None:
        return _failed(transactional_id, ErrorCode.transactional_id_not_found)
    return DescribedTransaction(
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=metadata.state.value,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=_topics(metadata, access),
    )


def _topics(metadata: TransactionMetadata, access: Access) -> tuple[TopicData, ...]:
    """The partitions; of a transaction that ends, those that have no marker yet."""
    return tuple(
        TopicData(topic=topic, partitions=tuple(indexes))
        for topic, indexes in by_topic(sorted(metadata.partitions)).items()
        if access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, log_if_denied=False)
    )


def _failed(transactional_id: str, code: ErrorCode) -> DescribedTransaction:
    return DescribedTransaction(error_code=code, transactional_id=transactional_id)
