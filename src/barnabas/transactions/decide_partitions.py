"""The decisions about AddPartitionsToTxn: partitions join a transaction, or are verified."""

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.transactions.transaction_messages import (
    DONE,
    AddPartitions,
    Decision,
    Producer,
    refused,
)
from barnabas.transactions.transaction_metadata import TransactionMetadata
from barnabas.transactions.transaction_state import PREPARED, TransactionState


def decide_add(
    metadata: TransactionMetadata | None, is_pending: bool, request: AddPartitions, now_ms: int
) -> Decision:
    """The transaction with these partitions; partitions that it has are added at once."""
    error = _refusal(metadata, request.producer)
    if error is not ErrorCode.none or metadata is None:
        return refused(error)
    if is_pending:
        return refused(ErrorCode.concurrent_transactions)
    is_ongoing = metadata.state is TransactionState.ONGOING
    if is_ongoing and request.partitions <= metadata.partitions:
        return Decision(DONE)
    target = metadata.with_partitions(request.partitions, now_ms, request.version)
    return Decision(DONE, target)


def decide_verify(
    metadata: TransactionMetadata | None, request: AddPartitions
) -> dict[TopicPartition, ErrorCode]:
    """The code of each partition: none if it is in the producer's transaction.

    A pending change does not matter: the leader of the partition looks again when it appends.
    """
    error = _refusal(metadata, request.producer)
    if error is not ErrorCode.none or metadata is None:
        return dict.fromkeys(request.partitions, error)
    return {
        each: ErrorCode.none if each in metadata.partitions else ErrorCode.transaction_abortable
        for each in request.partitions
    }


def _refusal(metadata: TransactionMetadata | None, producer: Producer) -> ErrorCode:
    if metadata is None:
        return ErrorCode.invalid_producer_id_mapping
    is_prepared = metadata.state in PREPARED
    if producer.producer_id != metadata.producer_id:
        # The next producer id is in use already when the markers of the last one are not written.
        is_next = is_prepared and producer == Producer(metadata.next_producer_id, 0)
        if not is_next:
            return ErrorCode.invalid_producer_id_mapping
    elif producer.epoch != metadata.producer_epoch:
        return ErrorCode.producer_fenced
    return ErrorCode.concurrent_transactions if is_prepared else ErrorCode.none
