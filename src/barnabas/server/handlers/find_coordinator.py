"""FindCoordinator (10): no group or transaction has a coordinator here yet, and this says so.

It is served all the same because librdkafka takes a broker without it for one that knows no
lz4, and silently sends such batches uncompressed. COORDINATOR_NOT_AVAILABLE makes a client ask
again later: consumers that assign their partitions themselves do not notice.

Version notes. Up to version 3 one key is asked for; from 4 on several.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator

from barnabas.base.errors import ErrorCode
from barnabas.server.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

log = logging.getLogger("barnabas.coordinators")

MOST_TOLD: Final = 1_000
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


class FindCoordinator:
    """Answers, and tells the operator once per client why its group does not get going."""

    def __init__(self) -> None:
        self._told: set[str | None] = set()

    def __call__(self, request: FindCoordinatorRequest, call: Call) -> NoCoordinator:
        if call.client_id not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(call.client_id)
            log.info(
                "no coordinator: consumer groups and transactions are not served yet "
                "client=%s peer=%s",
                call.client_id,
                call.connection.peer,
            )
        return _answer(request)


def _answer(request: FindCoordinatorRequest) -> NoCoordinator:
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
