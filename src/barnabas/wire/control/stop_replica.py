"""StopReplica (5): the controller makes a broker stop replicas, and delete them if asked.

Version notes. Version 4 added `is_kraft_controller`; the response never changed.
"""

from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode
from barnabas.wire.message_schema import (
    BOOL,
    ERROR_CODE,
    INT32,
    INT64,
    STRING,
    Entity,
    since,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaPartitionState(Entity):
    partition_index: int = field(metadata=INT32)
    leader_epoch: int = field(metadata=INT32, default=-1)
    delete_partition: bool = field(metadata=BOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaTopicState(Entity):
    topic_name: str = field(metadata=STRING)
    partition_states: tuple[StopReplicaPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaRequest(Entity):
    controller_id: int = field(metadata=INT32)
    is_kraft_controller: bool = field(metadata=since(4, BOOL), default=False)
    controller_epoch: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)
    topic_states: tuple[StopReplicaTopicState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaPartitionError(Entity):
    topic_name: str = field(metadata=STRING)
    partition_index: int = field(metadata=INT32)
    error_code: ErrorCode = field(metadata=ERROR_CODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaResponse(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    partition_errors: tuple[StopReplicaPartitionError, ...]
