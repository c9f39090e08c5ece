"""ControlledShutdown (7): a broker about to stop asks the controller to move its leaderships."""

from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode
from barnabas.wire.message_schema import ERROR_CODE, INT32, INT64, STRING, Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownRequest(Entity):
    broker_id: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingPartition(Entity):
    topic_name: str = field(metadata=STRING)
    partition_index: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownResponse(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    remaining_partitions: tuple[RemainingPartition, ...]
