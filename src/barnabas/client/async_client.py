"""A client of one cluster on an event loop: a connection to each broker that it asks."""

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from barnabas.base.errors import PeerGone
from barnabas.client.connection import AsyncConnection
from barnabas.client.retries import Address, Ask, Pause, Steps
from barnabas.client.security import PLAINTEXT, SecurityContext
from barnabas.client.versions import NEWEST, version_of
from barnabas.wire.apis import ApiKey

Result = TypeVar("Result")


class AsyncClient:
    """Opens connections when they are first needed, and keeps them until `close`."""

    def __init__(
        self,
        client_id: str,
        *,
        connect_s: float,
        request_s: float,
        slow_s: Mapping[ApiKey, float] | None = None,
        negotiate: bool = False,
        security: SecurityContext = PLAINTEXT,
    ) -> None:
        """`slow_s` has the timeouts of APIs to which `request_s` does not apply.

        With `negotiate` the client asks each broker for its versions; without, it speaks ours.
        """
        self.client_id = client_id
        self._connect_s = connect_s
        self._request_s = request_s
        self._slow_s = slow_s or {}
        self._negotiate = negotiate
        self._security = security
        self._connections: dict[Address, AsyncConnection] = {}
        self._versions: dict[Address, Mapping[ApiKey, int]] = {}
        self._opening: dict[Address, asyncio.Task[AsyncConnection]] = {}
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def run(self, steps: Steps[Result]) -> Result:
        """Carry out the steps. Raises whatever they raise."""
        try:
            step = next(steps)
            while True:
                try:
                    response = await self._carry_out(step)
                except PeerGone as gone:
                    step = steps.throw(gone)
                else:
                    step = steps.send(response)
        except StopIteration as end:
            return cast(Result, end.value)

    async def _carry_out(self, step: Ask | Pause) -> Any:
        if isinstance(step, Pause):
            return await asyncio.sleep(step.seconds)
        return await self.ask_at(step.address, step.key, step.message)

    def version_at(self, address: Address, key: ApiKey) -> int:
        """The version of this API that it speaks with the broker; the newest before they met.

        Raises  UnsupportedApi
        """
        return version_of(key, self._versions.get(address, NEWEST))

    async def ask_at(
        self, address: Address, key: ApiKey, message: Any, timeout_s: float | None = None
    ) -> Any:
        """The response of the broker at this address.

        Raises  PeerGone, UnsupportedApi
        """
        connection = await self.connection(address)
        version = self.version_at(address, key)
        timeout_s = timeout_s or self._slow_s.get(key, self._request_s)
        return await connection.request(key, version, message, timeout_s)

    async def connection(self, address: Address) -> AsyncConnection:
        """The connection to this address; all who wait for it get the same one.

        Raises  PeerGone, AuthenticationFailed
        """
        connection = self._connections.get(address)
        if connection is not None and not connection.closed:
            return connection
        opening = self._opening.get(address)
        if opening is None:
            opening = self._opening[address] = asyncio.ensure_future(self._open(address))
            opening.add_done_callback(lambda ended: self._on_opened(address, ended))
        return await asyncio.shield(opening)  # others may wait for it, too

    def _on_opened(self, address: Address, ended: "asyncio.Task[AsyncConnection]") -> None:
        del self._opening[address]
        if not ended.cancelled():
            ended.exception()  # all who waited for it may have given up

    async def _open(self, address: Address) -> AsyncConnection:
        connection = await AsyncConnection.connect(
            *address,
            client_id=self.client_id,
            timeout_s=self._connect_s,
            security=self._security,
        )
        try:
            if self._negotiate and not self._is_closed:
                self._versions[address] = await connection.versions(self._request_s)
        except asyncio.CancelledError:
            connection.close()
            raise
        if self._is_closed:
            connection.close()
            raise PeerGone(f"{connection.name} closed on our side")
        self._connections[address] = connection
        return connection
