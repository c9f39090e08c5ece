"""The decision about InitProducerId: which producer id and epoch a producer gets."""

from barnabas.base.errors import ErrorCode
from barnabas.transactions.transaction_messages import (
    NEEDS_PRODUCER_ID,
    NO_PRODUCER,
    Decision,
    InitProducer,
    Producer,
    ProducerReply,
    refused,
)
from barnabas.transactions.transaction_metadata import (
    FENCING_EPOCH,
    LAST_EPOCH,
    NO_EPOCH,
    TransactionMetadata,
    new_metadata,
)
from barnabas.transactions.transaction_state import PREPARED, TransactionState


def decide_init(
    metadata: TransactionMetadata | None,
    request: InitProducer,
    now_ms: int,
    new_producer_id: int | None,
    version: int,
) -> Decision:
    """The epoch after the current one; an open transaction is fenced and aborted first.

    `version` is the one of transactions in this cluster.
    """
    if metadata is None:
        if new_producer_id is None:
            return Decision(NEEDS_PRODUCER_ID)
        metadata = new_metadata(
            request.transactional_id, new_producer_id, request.timeout_ms, now_ms
        )
    if not _is_known(metadata, request.expected):
        return refused(ErrorCode.producer_fenced)
    if metadata.state in PREPARED:
        return refused(ErrorCode.concurrent_transactions)
    if metadata.state is TransactionState.ONGOING:
        # The client tries again, and then gets the epoch after the one of the fence.
        retry = ProducerReply(ErrorCode.concurrent_transactions)
        return Decision(retry, metadata.fenced(now_ms, version))
    return _decide_epoch(metadata, request, now_ms, new_producer_id)


def _is_known(metadata: TransactionMetadata, expected: Producer) -> bool:
    """True if the producer id is the current one, or the one before, of which epochs ran out."""
    return (
        expected == NO_PRODUCER
        or metadata.producer_epoch == NO_EPOCH
        or expected.producer_id == metadata.producer_id
        or (expected.producer_id == metadata.previous_producer_id and expected.epoch >= LAST_EPOCH)
    )


def _decide_epoch(
    metadata: TransactionMetadata,
    request: InitProducer,
    now_ms: int,
    new_producer_id: int | None,
) -> Decision:
    current, expected = metadata.producer_epoch, request.expected
    is_new = expected == NO_PRODUCER
    if metadata.is_exhausted and (is_new or expected.epoch == current):
        if new_producer_id is None:
            return Decision(NEEDS_PRODUCER_ID)
        producer, last = Producer(new_producer_id, 0), NO_EPOCH if is_new else current
    elif is_new:
        producer, last = Producer(metadata.producer_id, current + 1), NO_EPOCH
    elif current == NO_EPOCH or expected.epoch == current:
        producer, last = Producer(metadata.producer_id, current + 1), current
    elif expected.epoch == metadata.last_producer_epoch and current < FENCING_EPOCH:
        # The answer was lost, and no other producer came in between.
        producer, last = Producer(metadata.producer_id, current), metadata.last_producer_epoch
    else:
        return refused(ErrorCode.producer_fenced)
    target = metadata.with_epoch(
        producer.epoch, last, request.timeout_ms, now_ms, producer.producer_id
    )
    return Decision(ProducerReply(producer=producer), target)
