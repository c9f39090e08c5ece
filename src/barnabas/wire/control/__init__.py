"""What brokers and their controller say to each other, and kio has no schemas for."""

from typing import Any, Final

from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.control.alter_partition import AlterPartitionRequestV1, AlterPartitionResponseV1
from barnabas.wire.control.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from barnabas.wire.control.describe_controller import (
    DescribeControllerRequest,
    DescribeControllerResponse,
)
from barnabas.wire.control.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrResponseV4,
)
from barnabas.wire.control.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.wire.control.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from barnabas.wire.control.versions import at_version

_REQUESTS: Final[dict[ApiKey, type[Any]]] = {
    ApiKey.LEADER_AND_ISR: LeaderAndIsrRequest,
    ApiKey.STOP_REPLICA: StopReplicaRequest,
    ApiKey.UPDATE_METADATA: UpdateMetadataRequest,
    ApiKey.CONTROLLED_SHUTDOWN: ControlledShutdownRequest,
    ApiKey.DESCRIBE_CONTROLLER: DescribeControllerRequest,
}
_RESPONSES: Final[dict[ApiKey, type[Any]]] = {
    ApiKey.LEADER_AND_ISR: LeaderAndIsrResponse,
    ApiKey.STOP_REPLICA: StopReplicaResponse,
    ApiKey.UPDATE_METADATA: UpdateMetadataResponse,
    ApiKey.CONTROLLED_SHUTDOWN: ControlledShutdownResponse,
    ApiKey.DESCRIBE_CONTROLLER: DescribeControllerResponse,
}


def control_request(key: ApiKey, version: int) -> type[Any] | None:
    """The type of this request; None if kio knows it."""
    if key is ApiKey.ALTER_PARTITION and version <= 1:
        return at_version(AlterPartitionRequestV1, version)
    newest = _REQUESTS.get(key)
    if newest is None or version == APIS[key].highest:
        return newest
    return at_version(newest, version)


def control_response(key: ApiKey, version: int) -> type[Any] | None:
    """The type of this response; None if kio knows it."""
    if (key, version) == (ApiKey.LEADER_AND_ISR, 4):
        return LeaderAndIsrResponseV4
    if key is ApiKey.ALTER_PARTITION and version <= 1:
        return at_version(AlterPartitionResponseV1, version)
    newest = _RESPONSES.get(key)
    if newest is None or version == APIS[key].highest:
        return newest
    return at_version(newest, version)
