"""The requests to a transaction coordinator, their replies, and the events of decisions."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.transactions.transaction_metadata import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)


class Producer(NamedTuple):
    """The producer id and epoch that a request claims to have."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


NO_PRODUCER: Final = Producer()


class InitProducer(NamedTuple):
    """`expected` is what the producer has, if it has one (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: Producer = NO_PRODUCER


class AddPartitions(NamedTuple):
    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    version: int = 0  # of transactions, as the client speaks it


class EndTransaction(NamedTuple):
    transactional_id: str
    producer: Producer
    is_commit: bool
    version: int = 0  # of transactions, as the client speaks it


@dataclass(frozen=True, slots=True)
class ProducerReply:
    """An error, or the producer id and epoch to go on with.

    `needs_producer_id` says that nothing was decided: the request lacks a new producer id.
    """

    error: ErrorCode = ErrorCode.none
    producer: Producer = NO_PRODUCER
    needs_producer_id: bool = False

    def failed(self, error: ErrorCode) -> "ProducerReply":
        return ProducerReply(error)


DONE: Final = ProducerReply()
NEEDS_PRODUCER_ID: Final = ProducerReply(needs_producer_id=True)


class Decision(NamedTuple):
    """`target` is the metadata to write before `reply` is sent; without one nothing changes."""

    reply: ProducerReply
    target: TransactionMetadata | None = None


def refused(error: ErrorCode) -> Decision:
    return Decision(ProducerReply(error))


class WriteMarkers(NamedTuple):
    """An event: the outcome of a transaction is committed, its partitions want their markers."""

    metadata: TransactionMetadata
    coordinator_epoch: int


class TransactionSettings(NamedTuple):
    """Times in milliseconds. Only a test of the safeguards lets producers of past epochs in."""

    max_timeout_ms: int
    expiration_ms: int
    abort_interval_ms: int
    expire_interval_ms: int
    fences_epochs: bool = True
