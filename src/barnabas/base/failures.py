"""The failure channel of a broker: log directories that failed, and the error that stops it.

A part that meets a failure records it here, and returns or raises an error to its caller. The
broker acts on the failure in the next turn of the loop, as Kafka does with its
LogDirFailureChannel. So no part is changed by its owner in the middle of its own work.
"""

import asyncio
from collections.abc import Callable, Sequence

from barnabas.base.errors import DiskFault, LawBroken


class FailureChannel:
    """Built before all other parts of a broker. Recording a failure has no other effect."""

    __slots__ = ("_faults", "_loop", "_receiver", "fatal_error")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._faults: list[DiskFault] = []
        self._receiver: Callable[[Sequence[DiskFault]], None] | None = None
        # The first error after which the broker must stop.
        self.fatal_error: asyncio.Future[BaseException] = loop.create_future()

    @property
    def pending(self) -> Sequence[DiskFault]:
        """The faults that nobody has received yet, oldest first."""
        return tuple(self._faults)

    def disk_failed(self, fault: DiskFault) -> None:
        """Record that a log directory failed."""
        self._faults.append(fault)
        if len(self._faults) == 1:
            self._loop.call_soon(self._deliver)

    def fatal(self, error: BaseException) -> None:
        """Record an error after which the broker must stop; later ones are dropped."""
        if not self.fatal_error.done():
            self.fatal_error.set_result(error)

    def deliver_to(self, receiver: Callable[[Sequence[DiskFault]], None]) -> None:
        """Call `receiver` once in each turn of the loop that follows one with faults."""
        self._receiver = receiver
        if self._faults:
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        if self._receiver is not None and self._faults:
            faults, self._faults = self._faults, []
            try:
                self._receiver(faults)
            except LawBroken as broken:
                # The loop would only log it.
                self.fatal(broken)
