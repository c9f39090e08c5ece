"""AddPartitionsToTxn (24): adds partitions to a transaction, or verifies that they are in it.

Version notes. Up to version 3 clients add partitions to one transaction: one bad partition fails
all of them. From 4 on brokers ask, for several transactions in one request; `verify_only` changes
nothing. Brokers add partitions when a client of `transaction.version` 2 writes to them.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.turns import Turns
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.cluster.metadata_cache import is_internal
from barnabas.server.requests.access import Access, check
from barnabas.server.requests.dispatch import Call
from barnabas.server.transactions.fenced_errors import fenced_error
from barnabas.server.transactions.transaction_coordinator import Codes
from barnabas.transactions.transaction_messages import AddPartitions, Producer
from barnabas.transactions.transaction_metadata import EPOCH_BUMP
from barnabas.wire.schema import NO_THROTTLE

# The first version of brokers, and the first that knows PRODUCER_FENCED.
_BATCHED: Final = 4
_FENCED: Final = 2


@dataclass(frozen=True, slots=True)
class Added:
    """The response in both forms: by topic for a client, by transaction for a broker."""

    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = ()
    error_code: ErrorCode = ErrorCode.none
    throttle_time: timedelta = NO_THROTTLE


async def handle(broker: Broker, request: AddPartitionsToTxnRequest, call: Call) -> Added:
    turns = Turns()
    if call.version >= _BATCHED:
        if not call.access.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
            return Added(error_code=ErrorCode.cluster_authorization_failed)
        asked = await turns.listed(
            asyncio.ensure_future(_of_broker(broker, transaction, turns))
            for transaction in request.transactions
        )
        codes = await asyncio.gather(*asked)
        return Added(
            results_by_transaction=tuple(
                [
                    AddPartitionsToTxnResult(
                        transactional_id=transaction.transactional_id,
                        topic_results=await _topics(of, turns),
                    )
                    for transaction, of in zip(request.transactions, codes, strict=True)
                ]
            )
        )
    of_client = await _of_client(broker, call, turns)
    return Added(results_by_topic_v3_and_below=await _topics(of_client, turns))


async def _of_broker(broker: Broker, sent: AddPartitionsToTxnTransaction, turns: Turns) -> Codes:
    request = AddPartitions(
        sent.transactional_id,
        Producer(sent.producer_id, sent.producer_epoch),
        await _partitions(sent.topics, turns),
        EPOCH_BUMP,
    )
    transactions = broker.transactions
    if sent.verify_only:
        return transactions.verify(request)
    return await transactions.add_for_leader(request)


async def _of_client(broker: Broker, call: Call, turns: Turns) -> Codes:
    sent: Any = call.sent
    request = AddPartitions(
        sent.v3_and_below_transactional_id,
        Producer(sent.v3_and_below_producer_id, sent.v3_and_below_producer_epoch),
        await _partitions(sent.v3_and_below_topics, turns),
    )
    try:
        if not request.transactional_id:
            return dict.fromkeys(request.partitions, ErrorCode.invalid_request)
        check(
            call.access,
            Operation.WRITE,
            ResourceType.TRANSACTIONAL_ID,
            request.transactional_id,
        )
        # Not for brokers: one that waits would hold up all transactions of its request.
        transactions = broker.transactions
        codes = _denied(request, call.access) or await transactions.add_known(
            request, transactions.add_when_ended
        )
    except BrokerError as e:
        codes = dict.fromkeys(request.partitions, e.code)
    knows = call.version >= _FENCED
    told = {code: fenced_error(code, knows) for code in dict.fromkeys(codes.values())}
    return dict(await turns.listed((partition, told[code]) for partition, code in codes.items()))


def _denied(request: AddPartitions, access: Access) -> Codes:
    """The codes of all partitions, if the client may not write to the topic of one. No client
    may write to the topics of the coordinators."""
    topics = {each.topic for each in request.partitions}
    may = {
        topic: not is_internal(topic) and access.may(Operation.WRITE, ResourceType.TOPIC, topic)
        for topic in sorted(topics)
    }
    if all(may.values()):
        return {}
    return {
        each: ErrorCode.operation_not_attempted
        if may[each.topic]
        else ErrorCode.topic_authorization_failed
        for each in request.partitions
    }


async def _partitions(topics: Any, turns: Turns) -> frozenset[TopicPartition]:
    return frozenset(
        await turns.listed(
            TopicPartition(topic.name, partition)
            for topic in topics
            for partition in topic.partitions
        )
    )


async def _topics(codes: Codes, turns: Turns) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    topics: dict[str, list[tuple[int, ErrorCode]]] = {}
    async for (topic, partition), code in turns.each(codes.items()):
        topics.setdefault(topic, []).append((partition, code))
    return tuple(
        [
            AddPartitionsToTxnTopicResult(
                name=topic,
                results_by_partition=tuple(
                    await turns.listed(
                        AddPartitionsToTxnPartitionResult(
                            partition_index=partition, partition_error_code=code
                        )
                        for partition, code in sorted(topics[topic])
                    )
                ),
            )
            for topic in sorted(topics)
        ]
    )
