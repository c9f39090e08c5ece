"""A blocking client of one cluster: a connection to each broker that it asks."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from barnabas.base.errors import PeerGone
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.retries import Address, Ask, Pause, Steps
from barnabas.client.versions import PORTABLE, version_of
from barnabas.wire.apis import ApiKey

Result = TypeVar("Result")


class BlockingClient:
    """Opens connections when they are first needed, and keeps them until `close`."""

    def __init__(
        self,
        connect: Callable[[Address], BlockingConnection],
        versions: Mapping[ApiKey, int] = PORTABLE,
    ) -> None:
        self._connect = connect
        self._versions = versions
        self._connections: dict[Address, BlockingConnection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def run(self, steps: Steps[Result]) -> Result:
        """Carry out the steps. Raises whatever they raise."""
        try:
            step = next(steps)
            while True:
                try:
                    response = self._carry_out(step)
                except PeerGone as gone:
                    step = steps.throw(gone)
                else:
                    step = steps.send(response)
        except StopIteration as end:
            return cast(Result, end.value)

    def _carry_out(self, step: Ask | Pause) -> Any:
        if isinstance(step, Pause):
            return threading.Event().wait(step.seconds)
        return self.ask_at(step.address, step.key, step.message)

    def ask_at(self, address: Address, key: ApiKey, message: Any) -> Any:
        """The response of the broker at this address. Raises PeerGone, UnsupportedApi."""
        version = version_of(key, self._versions)
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = self._connect(address)
        try:
            return connection.request(key, version, message)
        except PeerGone:
            del self._connections[address]
            raise
