"""AlterPartition (56) of Kafka 2.7: topics by name. kio has the schemas from version 2 on.

Version notes. Version 1 added `leader_recovery_state` to both messages.
"""

from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode
from barnabas.wire.message_schema import (
    ERROR_CODE,
    INT8,
    INT32,
    INT64,
    STRING,
    Entity,
    since,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartition(Entity):
    partition_index: int = field(metadata=INT32)
    leader_epoch: int = field(metadata=INT32)
    new_isr: tuple[int, ...] = field(metadata=INT32)
    leader_recovery_state: int = field(metadata=since(1, INT8), default=0)
    partition_epoch: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopic(Entity):
    topic_name: str = field(metadata=STRING)
    partitions: tuple[NamedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionRequestV1(Entity):
    broker_id: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)
    topics: tuple[NamedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartitionAnswer(Entity):
    partition_index: int = field(metadata=INT32)
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    leader_id: int = field(metadata=INT32)
    leader_epoch: int = field(metadata=INT32)
    isr: tuple[int, ...] = field(metadata=INT32)
    leader_recovery_state: int = field(metadata=since(1, INT8), default=0)
    partition_epoch: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopicAnswer(Entity):
    topic_name: str = field(metadata=STRING)
    partitions: tuple[NamedPartitionAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResponseV1(Entity):
    throttle_time_ms: int = field(metadata=INT32, default=0)
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    topics: tuple[NamedTopicAnswer, ...]
