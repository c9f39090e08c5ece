"""An event loop in virtual time: when nothing is ready it jumps to its next timer."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

Arguments = TypeVarTuple("Arguments")


class VirtualLoop(asyncio.BaseEventLoop):
    """Counts its turns and keeps its timer handles, to detect idle work."""

    def __init__(self, now: float = 0.0) -> None:
        super().__init__()
        self._selector = self
        self._now = now
        self.turns = 0
        self.handles: list[asyncio.TimerHandle] = []
        self.errors: list[object] = []
        self.set_exception_handler(lambda _, context: self.errors.append(context["exception"]))

    def time(self) -> float:
        return self._now

    def spend(self, seconds: float) -> None:
        """Let time pass without the loop turning, as a slow callback does."""
        self._now += seconds

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        self.handles.append(handle)
        return handle

    def armed(self) -> list[float]:
        """The times of the pending handles."""
        scheduled: list[asyncio.TimerHandle] = vars(self)["_scheduled"]
        return [handle.when() for handle in scheduled if not handle.cancelled()]

    def run_until_idle(self) -> None:
        """Run until no handle is left."""
        self.run_forever()

    def select(self, timeout: float | None) -> list[None]:
        """Called by the base loop to sleep: advance the time."""
        self.turns += 1
        if timeout is None:
            self.stop()
        else:
            self._now += timeout
        return []

    def _process_events(self, events: list[None]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass
