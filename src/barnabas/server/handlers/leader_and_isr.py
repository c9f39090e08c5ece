"""LeaderAndIsr (4): the controller says which partitions this broker leads and follows.

Version notes. Up to version 4 the answer names topics instead of giving their ids.
"""

from itertools import groupby

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import ControlledParts
from barnabas.server.cluster.partition_roles import Codes
from barnabas.server.requests.dispatch import Call
from barnabas.wire.control.leader_and_isr import (
    LeaderAndIsrNamedPartitionError,
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrResponseV4,
    LeaderAndIsrTopicError,
)


async def handle(
    broker: ControlledParts, request: LeaderAndIsrRequest, call: Call | None
) -> LeaderAndIsrResponse | LeaderAndIsrResponseV4:
    """Without a `call` it is this broker's own controller that asks, in the newest version."""
    error_code, codes = ErrorCode.none, Codes()
    try:
        codes = await broker.partitions.become(
            request, lambda: broker.registration.check_epoch(request.broker_epoch)
        )
    except BrokerError as e:
        error_code = e.code
    if call is not None and call.version < 5:
        return _by_name(error_code, codes)
    return _by_id(request, error_code, codes)


def _by_id(
    request: LeaderAndIsrRequest, error_code: ErrorCode, codes: Codes
) -> LeaderAndIsrResponse:
    ids = {topic.topic_name: topic.topic_id for topic in request.topic_states}
    return LeaderAndIsrResponse(
        error_code=error_code,
        topics=tuple(
            LeaderAndIsrTopicError(
                topic_id=ids[name],
                partition_errors=tuple(
                    LeaderAndIsrPartitionError(
                        partition_index=partition.partition, error_code=codes[partition]
                    )
                    for partition in partitions
                ),
            )
            for name, partitions in groupby(codes, key=lambda partition: partition.topic)
        ),
    )


def _by_name(error_code: ErrorCode, codes: Codes) -> LeaderAndIsrResponseV4:
    return LeaderAndIsrResponseV4(
        error_code=error_code,
        partition_errors=tuple(
            LeaderAndIsrNamedPartitionError(
                topic_name=partition.topic, partition_index=partition.partition, error_code=code
            )
            for partition, code in codes.items()
        ),
    )
