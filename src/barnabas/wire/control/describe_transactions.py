"""DescribeTransactions (65): the state of transactional ids, as their coordinator has it.

kio refuses the start time -1, which Kafka sends where no transaction is open.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from barnabas.base.errors import ErrorCode
from barnabas.wire.message_schema import DURATION, ERROR_CODE, INT16, INT32, INT64, STRING, Entity

NO_START_TIME = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsRequest(Entity):
    transactional_ids: tuple[str, ...] = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicData(Entity):
    topic: str = field(metadata=STRING)
    partitions: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    transactional_id: str = field(metadata=STRING)
    transaction_state: str = field(metadata=STRING, default="")
    transaction_timeout_ms: int = field(metadata=INT32, default=0)
    transaction_start_time_ms: int = field(metadata=INT64, default=NO_START_TIME)
    producer_id: int = field(metadata=INT64, default=-1)
    producer_epoch: int = field(metadata=INT16, default=-1)
    topics: tuple[TopicData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse(Entity):
    throttle_time: timedelta = field(metadata=DURATION)
    transaction_states: tuple[DescribedTransaction, ...]
