"""FindCoordinator (10): no group or transaction has a coordinator here yet, and this says so.

It is served all the same because librdkafka takes a broker without it for one that knows no
lz4, and silently sends such batches uncompressed. COORDINATOR_NOT_AVAILABLE makes a client ask
again later: consumers that assign their partitions themselves do not notice.

Version notes. Up to version 3 one key is asked for; from 4 on several.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator

from barnabas.base.errors import ErrorCode
from barnabas.server.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

WHY: Final = "Consumer groups and transactions are not served by this broker yet."


@dataclass(frozen=True, slots=True)
class NoCoordinator:
    """The answer in both forms: for one key, and for a list of them."""

    coordinators: tuple[Coordinator, ...]
    throttle_time: timedelta = NO_THROTTLE
    error_code: ErrorCode = ErrorCode.coordinator_not_available
    error_message: str = WHY
    node_id: int = -1
    host: str = ""
    port: int = -1


def handle(request: FindCoordinatorRequest, _: Call) -> NoCoordinator:
    return NoCoordinator(
        tuple(
            Coordinator(
                key=key,
                node_id=-1,
                host="",
                port=-1,
                error_code=ErrorCode.coordinator_not_available,
                error_message=WHY,
            )
            for key in request.coordinator_keys
        )
    )
