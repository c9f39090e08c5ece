"""The versions that Kafka 3.9 serves and kio lacks; Produce and Fetch are in `old_formats`.

Each class is the newest of them: `since` marks the fields that version 0 lacks. A message whose
fields are those of kio's first version is that one.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from kio.schema.alter_replica_log_dirs.v1.request import (
    AlterReplicaLogDirsRequest as AlterReplicaLogDirsRequest,
)
from kio.schema.alter_replica_log_dirs.v1.response import (
    AlterReplicaLogDirsResponse as AlterReplicaLogDirsResponse,
)
from kio.schema.create_acls.v1.response import CreateAclsResponse as CreateAclsResponse
from kio.schema.delete_topics.v1.request import DeleteTopicsRequest as DeleteTopicsRequest
from kio.schema.describe_log_dirs.v1.request import DescribeLogDirsRequest as DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v1.response import (
    DescribeLogDirsResponse as DescribeLogDirsResponse,
)
from kio.schema.offset_commit.v2.response import OffsetCommitResponse as OffsetCommitResponse
from kio.schema.offset_fetch.v1.request import OffsetFetchRequest as OffsetFetchRequest
from kio.schema.offset_fetch.v1.response import OffsetFetchResponse as OffsetFetchResponse

from barnabas.base.errors import ErrorCode
from barnabas.wire.message_schema import (
    BOOL,
    DURATION,
    ERROR_CODE,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    PlainEntity,
    derived,
    since,
)

DEFAULT_CONFIG: Final = 5  # the source of a property that nobody has set


# -- ListOffsets (2), version 0: several offsets, the bases of segments ---------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartition(PlainEntity):
    partition_index: int = field(metadata=INT32)
    timestamp: int = field(metadata=INT64)
    max_num_offsets: int = field(metadata=INT32, default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopic(PlainEntity):
    name: str = field(metadata=STRING)
    partitions: tuple[ListOffsetsPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest(PlainEntity):
    replica_id: int = field(metadata=INT32)
    topics: tuple[ListOffsetsTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartitionResponse(PlainEntity):
    partition_index: int = field(metadata=INT32)
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    old_style_offsets: tuple[int, ...] = field(metadata=INT64, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopicResponse(PlainEntity):
    name: str = field(metadata=STRING)
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse(PlainEntity):
    topics: tuple[ListOffsetsTopicResponse, ...]


# -- OffsetCommit (8), versions 0 and 1 ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestPartition(PlainEntity):
    partition_index: int = field(metadata=INT32)
    committed_offset: int = field(metadata=INT64)
    commit_timestamp: int = field(metadata=since(1, INT64), default=-1)
    committed_metadata: str | None = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic(PlainEntity):
    name: str = field(metadata=STRING)
    partitions: tuple[OffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest(PlainEntity):
    group_id: str = field(metadata=STRING)
    generation_id_or_member_epoch: int = field(metadata=since(1, INT32), default=-1)
    member_id: str = field(metadata=since(1, STRING))
    topics: tuple[OffsetCommitRequestTopic, ...]


# -- CreateTopics (19), versions 0 and 1 -----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableReplicaAssignment(PlainEntity):
    partition_index: int = field(metadata=INT32)
    broker_ids: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicConfig(PlainEntity):
    name: str = field(metadata=STRING)
    value: str | None = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopic(PlainEntity):
    name: str = field(metadata=STRING)
    num_partitions: int = field(metadata=INT32)
    replication_factor: int = field(metadata=INT16)
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest(PlainEntity):
    topics: tuple[CreatableTopic, ...]
    timeout: timedelta = field(metadata=DURATION, default=timedelta(minutes=1))
    validate_only: bool = field(metadata=since(1, BOOL), default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicResult(PlainEntity):
    name: str = field(metadata=STRING)
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    error_message: str | None = field(metadata=since(1, STRING))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse(PlainEntity):
    topics: tuple[CreatableTopicResult, ...]


# -- DeleteTopics (20), version 0 ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableTopicResult(PlainEntity):
    name: str = field(metadata=STRING)
    error_code: ErrorCode = field(metadata=ERROR_CODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse(PlainEntity):
    responses: tuple[DeletableTopicResult, ...]


# -- OffsetForLeaderEpoch (23), versions 0 and 1 ---------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderPartition(PlainEntity):
    partition: int = field(metadata=INT32)
    leader_epoch: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderTopic(PlainEntity):
    topic: str = field(metadata=STRING)
    partitions: tuple[OffsetForLeaderPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequest(PlainEntity):
    topics: tuple[OffsetForLeaderTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndOffset(PlainEntity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    partition: int = field(metadata=INT32)
    leader_epoch: int = field(metadata=since(1, INT32), default=-1)
    end_offset: int = field(metadata=INT64, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderTopicResult(PlainEntity):
    topic: str = field(metadata=STRING)
    partitions: tuple[EpochEndOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochResponse(PlainEntity):
    topics: tuple[OffsetForLeaderTopicResult, ...]


# -- WriteTxnMarkers (27), version 0 ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerTopic(PlainEntity):
    name: str = field(metadata=STRING)
    partition_indexes: tuple[int, ...] = field(metadata=INT32, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarker(PlainEntity):
    producer_id: int = field(metadata=INT64)
    producer_epoch: int = field(metadata=INT16)
    transaction_result: bool = field(metadata=BOOL)
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersRequest(PlainEntity):
    markers: tuple[WritableTxnMarker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerPartitionResult(PlainEntity):
    partition_index: int = field(metadata=INT32)
    error_code: ErrorCode = field(metadata=ERROR_CODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerTopicResult(PlainEntity):
    name: str = field(metadata=STRING)
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerResult(PlainEntity):
    producer_id: int = field(metadata=INT64)
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersResponse(PlainEntity):
    markers: tuple[WritableTxnMarkerResult, ...]


# -- DescribeAcls (29), CreateAcls (30) and DeleteAcls (31), version 0: literal names only ---------


@dataclass(frozen=True, slots=True, kw_only=True)
class AclDescription(PlainEntity):
    principal: str = field(metadata=STRING)
    host: str = field(metadata=STRING)
    operation: int = field(metadata=INT8)
    permission_type: int = field(metadata=INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResource(PlainEntity):
    resource_type: int = field(metadata=INT8)
    resource_name: str = field(metadata=STRING)
    acls: tuple[AclDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResponse(PlainEntity):
    throttle_time: timedelta = field(metadata=DURATION)
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    error_message: str | None = field(metadata=STRING)
    resources: tuple[DescribeAclsResource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsRequest(PlainEntity):
    resource_type_filter: int = field(metadata=INT8)
    resource_name_filter: str | None = field(metadata=STRING)
    principal_filter: str | None = field(metadata=STRING)
    host_filter: str | None = field(metadata=STRING)
    operation: int = field(metadata=INT8)
    permission_type: int = field(metadata=INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreation(PlainEntity):
    resource_type: int = field(metadata=INT8)
    resource_name: str = field(metadata=STRING)
    principal: str = field(metadata=STRING)
    host: str = field(metadata=STRING)
    operation: int = field(metadata=INT8)
    permission_type: int = field(metadata=INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsRequest(PlainEntity):
    creations: tuple[AclCreation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsRequest(PlainEntity):
    filters: tuple[DescribeAclsRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsMatchingAcl(PlainEntity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    error_message: str | None = field(metadata=STRING)
    resource_type: int = field(metadata=INT8)
    resource_name: str = field(metadata=STRING)
    principal: str = field(metadata=STRING)
    host: str = field(metadata=STRING)
    operation: int = field(metadata=INT8)
    permission_type: int = field(metadata=INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsFilterResult(PlainEntity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    error_message: str | None = field(metadata=STRING)
    matching_acls: tuple[DeleteAclsMatchingAcl, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsResponse(PlainEntity):
    throttle_time: timedelta = field(metadata=DURATION)
    filter_results: tuple[DeleteAclsFilterResult, ...]


# -- DescribeConfigs (32), version 0 ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResource(PlainEntity):
    resource_type: int = field(metadata=INT8)
    resource_name: str = field(metadata=STRING)
    configuration_keys: tuple[str, ...] | None = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsRequest(PlainEntity):
    resources: tuple[DescribeConfigsResource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResourceResult(PlainEntity):
    name: str = field(metadata=STRING)
    value: str | None = field(metadata=STRING)
    read_only: bool = field(metadata=BOOL)
    is_default: bool = field(
        metadata=derived(BOOL, lambda entry: entry.config_source == DEFAULT_CONFIG)
    )
    is_sensitive: bool = field(metadata=BOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResult(PlainEntity):
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    error_message: str | None = field(metadata=STRING)
    resource_type: int = field(metadata=INT8)
    resource_name: str = field(metadata=STRING)
    configs: tuple[DescribeConfigsResourceResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponse(PlainEntity):
    throttle_time: timedelta = field(metadata=DURATION)
    results: tuple[DescribeConfigsResult, ...]
