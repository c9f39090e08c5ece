"""Control requests: LeaderAndIsr, StopReplica and UpdateMetadata, which only a controller sends."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from barnabas.base.errors import BarnabasError, LawBroken, PeerGone
from barnabas.controller.io.request_batch import ControlRequest
from barnabas.server.broker import ControlledParts
from barnabas.server.cluster.startup_sync import StartupSync
from barnabas.server.handlers import leader_and_isr, stop_replica, update_metadata
from barnabas.server.requests.dispatch import Call, MessageHandler
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message

_HANDLERS: Final[Mapping[ApiKey, Callable[[ControlledParts, Any, Call | None], Awaitable[Any]]]] = {
    ApiKey.LEADER_AND_ISR: leader_and_isr.handle,
    ApiKey.STOP_REPLICA: stop_replica.handle,
    ApiKey.UPDATE_METADATA: update_metadata.handle,
}


class ControlRequests:
    """Handles them for the controllers of other brokers, and for the one in this process."""

    def __init__(self, parts: ControlledParts, startup_sync: StartupSync) -> None:
        self._parts = parts
        self._startup_sync = startup_sync

    def handlers(self) -> dict[ApiKey, MessageHandler]:
        return {key: partial(self._handle, key) for key in _HANDLERS}

    async def handle_own(self, request: ControlRequest) -> Message:
        """Handle a request of this broker's own controller.

        Raises  PeerGone, upon which the controller sends it again
        """
        try:
            return await self._handle(request.key, request.message, None)
        except LawBroken:
            raise
        except BarnabasError as e:
            raise PeerGone(f"this broker: {e}") from e

    async def _handle(self, key: ApiKey, request: Message, call: Call | None) -> Message:
        response: Message = await _HANDLERS[key](self._parts, request, call)
        self._startup_sync.received.set()
        return response
