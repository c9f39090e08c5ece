"""A failure channel that nobody drains: tests read what was recorded."""

from barnabas.base.errors import DiskFault
from barnabas.base.failures import FailureChannel


class RecordedFailures(FailureChannel):
    """Keeps all failures, or raises each where a test expects none."""

    def __init__(self, *, expects_none: bool = False) -> None:
        self.faults: list[DiskFault] = []
        self.broken: list[BaseException] = []
        self._expects_none = expects_none

    def disk_failed(self, fault: DiskFault) -> None:
        self.faults.append(fault)
        if self._expects_none:
            raise fault

    def fatal(self, error: BaseException) -> None:
        self.broken.append(error)
        if self._expects_none:
            raise error
