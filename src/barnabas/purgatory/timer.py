"""Runs tasks when they are due, by one timing wheel and one timer of the event loop.

The loop is asked to call at the wheel's next bucket and at nothing else: while no task
waits the loop sleeps, and however many wait it holds one handle of ours at the most.
Cancelling leaves that handle armed, since a request that is answered in time, which is
nearly every one, would otherwise pay for disarming it: the price is one idle call.

Time is the loop's own, so a loop in virtual time needs nothing more. The wheel counts
whole milliseconds: millisecond n has come once loop.time() >= n / 1000, which is also
exactly when the loop is asked to call. Multiplying by 1000 instead would round differently
now and then: the loop would call for n, we would read n - 1, and ask for the same call again.
"""

import asyncio
from typing import Final

from barnabas.base.errors import LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.purgatory.timing_wheel import NEVER_MS, TimerTask, TimingWheel

# Earlier than any deadline: while tasks run, those that they add do not arm the loop.
_NOT_NOW_MS: Final = -NEVER_MS


def whole_ms_passed(seconds: float) -> int:
    """The last millisecond that has come at this time of the loop."""
    ms = int(seconds * 1000) + 1
    while ms / 1000 > seconds:
        ms -= 1
    return ms


def whole_ms_ahead(seconds: float) -> int:
    """The first millisecond that is not before this time of the loop."""
    ms = int(seconds * 1000)
    while ms / 1000 < seconds:
        ms += 1
    return ms


class Timer:
    """Runs each task once, at its deadline or up to a tick later, never before, never if cancelled.

    What a task raises is reported to the loop's exception handler and stops no other task.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        failures: FailureChannel | None = None,
    ) -> None:
        """`failures` gets the broken laws, which no exception handler may pass over."""
        self._loop = loop
        self._failures = failures
        self._wheel = TimingWheel(whole_ms_passed(loop.time()))
        self._handle: asyncio.TimerHandle | None = None
        self._armed_ms = NEVER_MS
        self._closed = False

    def __len__(self) -> int:
        """How many tasks wait."""
        return self._wheel.size

    def add(self, task: TimerTask, timeout_ms: int) -> bool:
        """Run the task that many milliseconds from now; False hands it back, as it is due already.

        It never runs within this call.
        """
        if timeout_ms <= 0:
            return False
        wheel, seconds = self._wheel, self._loop.time()
        if not wheel.size:
            # The wheel's time stood still while nothing waited; all deadlines would look far.
            wheel.advance(whole_ms_passed(seconds))
        deadline_ms = whole_ms_ahead(seconds) + timeout_ms
        wheel.add(task, deadline_ms)
        if deadline_ms < self._armed_ms:
            self._arm()
        return True

    def cancel(self, task: TimerTask) -> bool:
        """Do not run the task, even if it is due in this very tick; False if it did not wait."""
        return self._wheel.cancel(task)

    def close(self) -> None:
        """Run nothing any more, and leave nothing armed; what still waits is left waiting."""
        self._closed = True
        self._disarm()

    def report(self, error: Exception, task: object) -> None:
        """Tell the loop's exception handler what a task raised."""
        if isinstance(error, LawBroken) and self._failures is not None:
            self._failures.fatal(error)
        message = f"{type(task).__name__} raised {type(error).__name__} in the purgatory"
        self._loop.call_exception_handler({"message": message, "exception": error})

    def _arm(self) -> None:
        self._disarm()
        bucket_ms = self._wheel.next_bucket_ms
        if bucket_ms is not None and not self._closed:
            self._armed_ms = bucket_ms
            self._handle = self._loop.call_at(bucket_ms / 1000, self._on_bucket)

    def _disarm(self) -> None:
        self._armed_ms = NEVER_MS
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _on_bucket(self) -> None:
        self._handle = None
        self._armed_ms = _NOT_NOW_MS
        now_ms = whole_ms_passed(self._loop.time())
        try:
            for task in self._wheel.advance(now_ms):
                # One before it in the same tick may have cancelled it, or added it anew.
                if task.deadline_ms <= now_ms and not self._closed:
                    self._run(task)
        finally:
            self._arm()

    def _run(self, task: TimerTask) -> None:
        try:
            task.run()
        except Exception as error:
            self.report(error, task)
