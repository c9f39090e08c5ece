"""StopReplica (5): the controller says which replicas to stop, and which to delete as well."""

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import ControlledParts
from barnabas.server.cluster.partition_roles import Codes
from barnabas.server.requests.dispatch import Call
from barnabas.wire.control.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)


async def handle(
    broker: ControlledParts, request: StopReplicaRequest, _: Call | None
) -> StopReplicaResponse:
    error_code, codes = ErrorCode.none, Codes()
    try:
        broker.registration.check_epoch(request.broker_epoch)
        codes = await broker.partitions.stop(request)
    except BrokerError as e:
        error_code = e.code
    return StopReplicaResponse(
        error_code=error_code,
        partition_errors=tuple(
            StopReplicaPartitionError(
                topic_name=partition.topic, partition_index=partition.partition, error_code=code
            )
            for partition, code in codes.items()
        ),
    )
