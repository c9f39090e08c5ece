"""The decision about EndTxn: the outcome of a transaction.

Version 2 raises the epoch with each transaction, so a request of the epoch before is a retry and
one of the current epoch is about the current transaction. What it answers without a transaction:

                    abort              commit
                    retry   current    retry   current
    Empty           fenced  new epoch  fenced  invalid
    CompleteAbort   none    new epoch  invalid invalid
    CompleteCommit  invalid new epoch  none    invalid
"""

from barnabas.base.errors import ErrorCode
from barnabas.transactions.transaction_messages import (
    DONE,
    NEEDS_PRODUCER_ID,
    Decision,
    EndTransaction,
    Producer,
    ProducerReply,
    refused,
)
from barnabas.transactions.transaction_metadata import (
    EPOCH_BUMP,
    FENCING_EPOCH,
    LAST_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from barnabas.transactions.transaction_state import ENDED, PREPARED, TransactionState

_S = TransactionState


def decide_end(
    metadata: TransactionMetadata | None,
    is_pending: bool,
    request: EndTransaction,
    now_ms: int,
    new_producer_id: int | None = None,
) -> Decision:
    """Prepare the outcome; a retry gets the answer that was lost."""
    if metadata is None:
        return refused(ErrorCode.invalid_producer_id_mapping)
    if request.version < EPOCH_BUMP:
        return _decide_without_bump(metadata, is_pending, request, now_ms)
    return _decide_with_bump(metadata, is_pending, request, now_ms, new_producer_id)


def _decide_without_bump(
    metadata: TransactionMetadata, is_pending: bool, request: EndTransaction, now_ms: int
) -> Decision:
    if request.producer.producer_id != metadata.producer_id:
        return refused(ErrorCode.invalid_producer_id_mapping)
    if request.producer.epoch != metadata.producer_epoch:
        return refused(ErrorCode.producer_fenced)
    if is_pending:
        return refused(ErrorCode.concurrent_transactions)
    if metadata.state is _S.ONGOING:
        target = metadata.prepared(_prepare(request), now_ms, request.version, NO_PRODUCER_ID)
        return Decision(DONE, target)
    return _answer_ended(metadata, request)


def _decide_with_bump(
    metadata: TransactionMetadata,
    is_pending: bool,
    request: EndTransaction,
    now_ms: int,
    new_producer_id: int | None,
) -> Decision:
    current = Producer(metadata.producer_id, metadata.producer_epoch)
    is_overflow, is_retry = _retries(metadata, request.producer)
    if request.producer.producer_id != metadata.producer_id and not is_overflow:
        return refused(ErrorCode.invalid_producer_id_mapping)
    if not (is_retry or (request.producer == current and metadata.state not in PREPARED)):
        return refused(ErrorCode.producer_fenced)
    if is_pending:
        return refused(ErrorCode.concurrent_transactions)
    if is_retry:
        return _answer_ended(metadata, request, current)
    if metadata.state in ENDED and request.is_commit:
        return refused(ErrorCode.invalid_txn_state)
    return _prepare_with_bump(metadata, request, now_ms, new_producer_id)


def _retries(metadata: TransactionMetadata, producer: Producer) -> tuple[bool, bool]:
    """Is the producer's id the one before the current one, and does it repeat its request?

    The fencing epoch is never given to a producer, not even to one that asks again. Where the
    transaction raised no epoch, the epoch before is that of a fenced producer.
    """
    if metadata.client_version < EPOCH_BUMP:
        return False, False
    epoch = metadata.producer_epoch
    is_overflow = epoch == 0 and producer == Producer(metadata.previous_producer_id, LAST_EPOCH)
    is_bumped = producer == Producer(metadata.producer_id, epoch - 1)
    if metadata.state in PREPARED:
        return False, is_bumped
    if metadata.state in (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT):
        return is_overflow, is_overflow or (is_bumped and epoch < FENCING_EPOCH)
    return False, False


def _prepare_with_bump(
    metadata: TransactionMetadata,
    request: EndTransaction,
    now_ms: int,
    new_producer_id: int | None,
) -> Decision:
    next_producer_id = NO_PRODUCER_ID
    if metadata.is_exhausted:
        if new_producer_id is None:
            return Decision(NEEDS_PRODUCER_ID)
        next_producer_id = new_producer_id
    target = metadata.prepared(_prepare(request), now_ms, request.version, next_producer_id)
    goes_on = (
        Producer(next_producer_id, 0)
        if metadata.is_exhausted
        else Producer(target.producer_id, target.producer_epoch)
    )
    return Decision(ProducerReply(producer=goes_on), target)


def _answer_ended(
    metadata: TransactionMetadata, request: EndTransaction, current: Producer | None = None
) -> Decision:
    """The answer where the outcome is decided already, or where there is no transaction."""
    same = (
        (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT)
        if request.is_commit
        else (_S.PREPARE_ABORT, _S.COMPLETE_ABORT)
    )
    if metadata.state not in same:
        return refused(ErrorCode.invalid_txn_state)
    if metadata.state in PREPARED:
        return refused(ErrorCode.concurrent_transactions)
    return Decision(ProducerReply() if current is None else ProducerReply(producer=current))


def _prepare(request: EndTransaction) -> TransactionState:
    return _S.PREPARE_COMMIT if request.is_commit else _S.PREPARE_ABORT
