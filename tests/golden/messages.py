"""Messages that kio has no schemas for, and their bytes: `python -m tests.golden.messages`.

The bytes are those of Kafka's own classes, kept in `messages.json` under a name and a version.
"""

import json
import uuid
from typing import Any, Final

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.control.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from barnabas.wire.control.leader_and_isr import (
    FULL,
    LeaderAndIsrLiveLeader,
    LeaderAndIsrNamedPartitionError,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrResponseV4,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from barnabas.wire.control.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from barnabas.wire.control.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from barnabas.wire.schema import adapt, request_type, response_type
from tests.golden.make import GOLDEN
from tests.support.apache_kafka import apache_kafka
from tests.support.kafka_messages import written_by_kafka

FILE: Final = GOLDEN / "messages.json"
_ID: Final = uuid.UUID("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")

LEADER_AND_ISR: Final = LeaderAndIsrRequest(
    controller_id=3,
    is_kraft_controller=True,
    controller_epoch=17,
    broker_epoch=2**40 + 1,
    type=FULL,
    topic_states=(
        LeaderAndIsrTopicState(
            topic_name="orders",
            topic_id=_ID,
            partition_states=(
                LeaderAndIsrPartitionState(
                    partition_index=0,
                    controller_epoch=16,
                    leader=1,
                    leader_epoch=5,
                    isr=(1, 2),
                    partition_epoch=9,
                    replicas=(1, 2, 3),
                    adding_replicas=(3,),
                    removing_replicas=(2,),
                    is_new=True,
                    leader_recovery_state=1,
                ),
                LeaderAndIsrPartitionState(
                    partition_index=300,
                    controller_epoch=17,
                    leader=-1,
                    leader_epoch=6,
                    isr=(),
                    partition_epoch=10,
                    replicas=tuple(range(200)),
                ),
            ),
        ),
        LeaderAndIsrTopicState(topic_name="ü" * 80, topic_id=None, partition_states=()),
    ),
    live_leaders=(
        LeaderAndIsrLiveLeader(broker_id=1, host_name="one.example", port=9092),
        LeaderAndIsrLiveLeader(broker_id=2, host_name="::1", port=65535),
    ),
)
STOP_REPLICA: Final = StopReplicaRequest(
    controller_id=3,
    is_kraft_controller=True,
    controller_epoch=17,
    broker_epoch=-1,
    topic_states=(
        StopReplicaTopicState(
            topic_name="orders",
            partition_states=(
                StopReplicaPartitionState(partition_index=0, leader_epoch=5, delete_partition=True),
                StopReplicaPartitionState(partition_index=1, delete_partition=False),
            ),
        ),
    ),
)
UPDATE_METADATA: Final = UpdateMetadataRequest(
    controller_id=3,
    is_kraft_controller=True,
    type=2,
    controller_epoch=17,
    broker_epoch=44,
    topic_states=(
        UpdateMetadataTopicState(
            topic_name="orders",
            topic_id=_ID,
            partition_states=(
                UpdateMetadataPartitionState(
                    partition_index=1,
                    controller_epoch=16,
                    leader=-2,
                    leader_epoch=5,
                    isr=(1,),
                    zk_version=9,
                    replicas=(1, 2),
                    offline_replicas=(2,),
                ),
            ),
        ),
    ),
    live_brokers=(
        UpdateMetadataBroker(
            id=1,
            endpoints=(
                UpdateMetadataEndpoint(
                    port=9092, host="one.example", listener="PLAINTEXT", security_protocol=0
                ),
                UpdateMetadataEndpoint(port=9093, host="", listener="INSIDE", security_protocol=3),
            ),
            rack="r1",
        ),
        UpdateMetadataBroker(id=2, endpoints=(), rack=None),
    ),
)
_STALE: Final = ErrorCode.stale_controller_epoch
_FENCED: Final = ErrorCode.fenced_leader_epoch
LEADER_AND_ISR_ANSWER: Final = LeaderAndIsrResponse(
    error_code=_STALE,
    topics=(
        LeaderAndIsrTopicError(
            topic_id=_ID,
            partition_errors=(
                LeaderAndIsrPartitionError(partition_index=7, error_code=_FENCED),
                LeaderAndIsrPartitionError(partition_index=8, error_code=ErrorCode.none),
            ),
        ),
    ),
)
LEADER_AND_ISR_ANSWER_V4: Final = LeaderAndIsrResponseV4(
    error_code=ErrorCode.none,
    partition_errors=(
        LeaderAndIsrNamedPartitionError(topic_name="orders", partition_index=7, error_code=_FENCED),
    ),
)
STOP_REPLICA_ANSWER: Final = StopReplicaResponse(
    error_code=ErrorCode.unknown_server_error,
    partition_errors=(
        StopReplicaPartitionError(topic_name="orders", partition_index=7, error_code=_FENCED),
    ),
)
CONTROLLED_SHUTDOWN_ANSWER: Final = ControlledShutdownResponse(
    error_code=ErrorCode.none,
    remaining_partitions=(RemainingPartition(topic_name="orders", partition_index=7),),
)

REQUESTS: Final[dict[ApiKey, Any]] = {
    ApiKey.LEADER_AND_ISR: LEADER_AND_ISR,
    ApiKey.STOP_REPLICA: STOP_REPLICA,
    ApiKey.UPDATE_METADATA: UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN: ControlledShutdownRequest(broker_id=3, broker_epoch=2**40),
}
RESPONSES: Final[dict[ApiKey, Any]] = {
    ApiKey.LEADER_AND_ISR: LEADER_AND_ISR_ANSWER,
    ApiKey.STOP_REPLICA: STOP_REPLICA_ANSWER,
    ApiKey.UPDATE_METADATA: UpdateMetadataResponse(error_code=_STALE),
    ApiKey.CONTROLLED_SHUTDOWN: CONTROLLED_SHUTDOWN_ANSWER,
}


def versions(key: ApiKey) -> range:
    return range(APIS[key].lowest, APIS[key].highest + 1)


def request(key: ApiKey, version: int) -> Any:
    """The request as far as that version contains it."""
    return adapt(REQUESTS[key], request_type(key, version))


def response(key: ApiKey, version: int) -> Any:
    """The response as far as that version contains it."""
    if (key, version) == (ApiKey.LEADER_AND_ISR, 4):
        return LEADER_AND_ISR_ANSWER_V4
    return adapt(RESPONSES[key], response_type(key, version))


def make() -> None:
    each = [(key, version) for key in REQUESTS for version in versions(key)]
    requests = [(version, request(key, version)) for key, version in each]
    responses = [(version, response(key, version)) for key, version in each]
    told = written_by_kafka(apache_kafka(), requests + responses)
    kinds = ("request", "response")
    names = [f"{key.name} {version} {kind}" for kind in kinds for key, version in each]
    golden = {name: message.hex() for name, message in zip(names, told, strict=True)}
    FILE.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    make()
