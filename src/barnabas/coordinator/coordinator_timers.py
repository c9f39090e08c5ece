"""The timers of one shard, by key, on the broker's timing wheel."""

from collections.abc import Callable

from barnabas.coordinator.result import TimerKey
from barnabas.purgatory.timer import Timer
from barnabas.purgatory.timing_wheel import TimerTask


class CoordinatorTimers:
    """Calls `expired` with the key of each timer that expires."""

    def __init__(self, timer: Timer, expired: Callable[[TimerKey], None]) -> None:
        self._timer = timer
        self._expired = expired
        self._armed: dict[TimerKey, _ShardTimer] = {}

    def __len__(self) -> int:
        return len(self._armed)

    def arm(self, key: TimerKey, delay_ms: float) -> None:
        """In place of a timer of the same key; one that is due already expires in a millisecond."""
        self.cancel(key)
        task = _ShardTimer(key, self._on_expired)
        self._timer.add(task, max(1, round(delay_ms)))
        self._armed[key] = task

    def cancel(self, key: TimerKey) -> None:
        if (task := self._armed.pop(key, None)) is not None:
            self._timer.cancel(task)

    def cancel_all(self) -> None:
        for key in list(self._armed):
            self.cancel(key)

    def _on_expired(self, key: TimerKey) -> None:
        del self._armed[key]
        self._expired(key)


class _ShardTimer(TimerTask):
    __slots__ = ("_expired", "_key")

    def __init__(self, key: TimerKey, expired: Callable[[TimerKey], None]) -> None:
        super().__init__()
        self._key = key
        self._expired = expired

    def run(self) -> None:
        self._expired(self._key)
