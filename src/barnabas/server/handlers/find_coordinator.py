"""FindCoordinator (10): the broker that coordinates a group or a transactional id.

Version notes. Up to version 3 one key is asked for; from 4 on several.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.access import check
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

GROUP: Final = 0
TRANSACTION: Final = 1
_RESOURCES: Final = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}


@dataclass(frozen=True, slots=True)
class FoundCoordinator:
    """The response in both forms: for one key, and for a list."""

    coordinators: tuple[Coordinator, ...]
    error_code: ErrorCode
    error_message: str | None
    node_id: int
    host: str
    port: int
    throttle_time: timedelta = NO_THROTTLE


async def handle(broker: Broker, request: FindCoordinatorRequest, call: Call) -> FoundCoordinator:
    keys = request.coordinator_keys if call.version >= 4 else (call.sent.key,)
    # Before version 1 only groups had coordinators.
    kind = request.key_type if call.version >= 1 else GROUP
    turns = Turns()
    found = tuple([await _find(broker, key, kind, call) async for key in turns.each(keys)])
    first = found[0] if found else _failed("", ErrorCode.invalid_request, "No key is given.")
    return FoundCoordinator(
        found, first.error_code, first.error_message, first.node_id, first.host, first.port
    )


async def _find(broker: Broker, key: str, kind: int, call: Call) -> Coordinator:
    try:
        if kind in _RESOURCES:
            check(call.access, Operation.DESCRIBE, _RESOURCES[kind], key)
    except BrokerError as e:
        return _failed(key, e.code, e.message)
    if kind not in (GROUP, TRANSACTION):
        return _failed(key, ErrorCode.invalid_request, f"There is no coordinator of type {kind}.")
    # Old clients commit offsets for a group without a name; a transactional id has one.
    if not key and kind == TRANSACTION:
        return _failed(key, ErrorCode.invalid_request)
    finder = broker.groups if kind == GROUP else broker.transactions
    try:
        coordinator, (host, port) = await finder.find(key, call.connection.listener)
    except BrokerError as e:
        return _failed(key, e.code, e.message)
    return Coordinator(
        key=key,
        node_id=coordinator.broker_id,
        host=host,
        port=port,
        error_code=ErrorCode.none,
        error_message=None,
    )


def _failed(key: str, code: ErrorCode, message: str | None = None) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message
    )
