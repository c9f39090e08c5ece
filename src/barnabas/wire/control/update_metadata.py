"""UpdateMetadata (6): the controller sends every broker the cluster's partitions and brokers.

Version notes. Version 7 added topic ids, version 8 `is_kraft_controller` and the tagged `type`;
the response never changed.
"""

import uuid
from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode
from barnabas.wire.message_schema import (
    BOOL,
    ERROR_CODE,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    Entity,
    since,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataPartitionState(Entity):
    partition_index: int = field(metadata=INT32)
    controller_epoch: int = field(metadata=INT32)
    leader: int = field(metadata=INT32)
    leader_epoch: int = field(metadata=INT32)
    isr: tuple[int, ...] = field(metadata=INT32)
    zk_version: int = field(metadata=INT32)
    replicas: tuple[int, ...] = field(metadata=INT32)
    offline_replicas: tuple[int, ...] = field(metadata=INT32, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataTopicState(Entity):
    topic_name: str = field(metadata=STRING)
    topic_id: uuid.UUID | None = field(metadata=since(7, UUID))
    partition_states: tuple[UpdateMetadataPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataEndpoint(Entity):
    port: int = field(metadata=INT32)
    host: str = field(metadata=STRING)
    listener: str = field(metadata=STRING)
    security_protocol: int = field(metadata=INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataBroker(Entity):
    id: int = field(metadata=INT32)
    endpoints: tuple[UpdateMetadataEndpoint, ...]
    rack: str | None = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataRequest(Entity):
    controller_id: int = field(metadata=INT32)
    is_kraft_controller: bool = field(metadata=since(8, BOOL), default=False)
    type: int = field(metadata=since(8, INT8, tag=0), default=0)
    controller_epoch: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)
    topic_states: tuple[UpdateMetadataTopicState, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataResponse(Entity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
