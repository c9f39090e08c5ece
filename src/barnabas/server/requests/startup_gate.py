"""The startup gate: a starting broker listens before it registers, and holds requests meanwhile.

Until the broker is registered it serves ApiVersions only: a control request could still be meant
for its registration before. From then on it serves the controller. Clients wait until the
controller has sent the metadata: an incomplete answer would say that their topics do not exist.
"""

import asyncio
from typing import Final

from barnabas.wire.apis import ApiKey

_ALWAYS: Final = frozenset({int(ApiKey.API_VERSIONS)})
_CONTROL: Final = frozenset(
    map(int, (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA))
)


class StartupGate:
    """Opens in two steps, once per start: for the controller, then for everybody."""

    def __init__(self) -> None:
        self.is_closed = True
        self._admitted = _ALWAYS
        self._widened = asyncio.Event()

    def holds(self, key: int) -> bool:
        """True if requests of this API have to wait."""
        return self.is_closed and key not in self._admitted

    def admit_controller(self) -> None:
        self._admitted = _ALWAYS | _CONTROL
        self._widen()

    def open(self) -> None:
        self.is_closed = False
        self._widen()

    async def passed(self, key: int) -> None:
        """Return when requests of this API are served."""
        while self.holds(key):
            await self._widened.wait()

    def _widen(self) -> None:
        self._widened.set()
        self._widened = asyncio.Event()
