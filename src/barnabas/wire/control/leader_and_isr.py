"""LeaderAndIsr (4): the controller makes a broker the leader or a follower of partitions.

Version notes. Version 5 added topic ids and `type`, version 6 the leader's recovery state,
version 7 `is_kraft_controller`. Up to version 4 the response names topics instead of their ids,
and the partitions are not grouped by topic: a class of its own, which a handler answers with.
"""

import uuid
from dataclasses import dataclass, field
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.wire.message_schema import (
    BOOL,
    ERROR_CODE,
    INT8,
    INT32,
    INT64,
    STRING,
    UUID,
    Entity,
    since,
)

# The values of `type`: in a full request, a replica that it does not name is a stray.
UNKNOWN: Final = 0
INCREMENTAL: Final = 1
FULL: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrPartitionState(Entity):
    partition_index: int = field(metadata=INT32)
    controller_epoch: int = field(metadata=INT32)
    leader: int = field(metadata=INT32)
    leader_epoch: int = field(metadata=INT32)
    isr: tuple[int, ...] = field(metadata=INT32)
    partition_epoch: int = field(metadata=INT32)
    replicas: tuple[int, ...] = field(metadata=INT32)
    adding_replicas: tuple[int, ...] = field(metadata=INT32, default=())
    removing_replicas: tuple[int, ...] = field(metadata=INT32, default=())
    is_new: bool = field(metadata=BOOL, default=False)
    leader_recovery_state: int = field(metadata=since(6, INT8), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopicState(Entity):
    topic_name: str = field(metadata=STRING)
    topic_id: uuid.UUID | None = field(metadata=since(5, UUID))
    partition_states: tuple[LeaderAndIsrPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrLiveLeader(Entity):
    broker_id: int = field(metadata=INT32)
    host_name: str = field(metadata=STRING)
    port: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrRequest(Entity):
    controller_id: int = field(metadata=INT32)
    is_kraft_controller: bool = field(metadata=since(7, BOOL), default=False)
    controller_epoch: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)
    type: int = field(metadata=since(5, INT8), default=UNKNOWN)
    topic_states: tuple[LeaderAndIsrTopicState, ...]
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrPartitionError(Entity):
    partition_index: int = field(metadata=INT32)
    error_code: ErrorCode = field(metadata=ERROR_CODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopicError(Entity):
    topic_id: uuid.UUID | None = field(metadata=UUID)
    partition_errors: tuple[LeaderAndIsrPartitionError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrResponse(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    topics: tuple[LeaderAndIsrTopicError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrNamedPartitionError(Entity):
    topic_name: str = field(metadata=STRING)
    partition_index: int = field(metadata=INT32)
    error_code: ErrorCode = field(metadata=ERROR_CODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrResponseV4(Entity):
    """The response before topics had ids."""

    error_code: ErrorCode = field(metadata=ERROR_CODE)
    partition_errors: tuple[LeaderAndIsrNamedPartitionError, ...]
