"""The rate of a client over Kafka's windows, and how long it is throttled beyond its quota.

Kafka's Rate counts in samples of one window each, and divides by the time since the oldest of
them, at least by all windows but the current one: a client that just came may send a burst.
"""

import math
from collections import deque
from typing import Final

WINDOWS: Final = 11
WINDOW_S: Final = 1.0


class QuotaRate:
    """The sum of what was recorded in the last windows, per second."""

    __slots__ = ("_samples", "_window_s", "_windows", "total")

    def __init__(self, windows: int = WINDOWS, window_s: float = WINDOW_S) -> None:
        self._windows = windows
        self._window_s = window_s
        self._samples: deque[list[float]] = deque()  # of [when it began, its total]
        self.total = 0.0

    def record(self, value: float, now: float) -> None:
        self._purge(now)
        samples = self._samples
        if not samples or now - samples[-1][0] >= self._window_s:
            samples.append([now, 0.0])
        samples[-1][1] += value
        self.total += value

    def current_window(self, now: float) -> tuple[list[float], float]:
        """The sample of the current window, which begins now if there is none, and its end.

        Until then `total` and the second item of the sample may be added to.
        """
        self.record(0.0, now)
        sample = self._samples[-1]
        return sample, sample[0] + self._window_s

    @property
    def least_elapsed(self) -> float:
        """The shortest time that `elapsed` returns."""
        return max(self._windows - 1, 1) * self._window_s

    def per_second(self, now: float) -> float:
        self._purge(now)
        return self.total / self.elapsed(now) if self._samples else 0.0

    def elapsed(self, now: float) -> float:
        """The time that the samples stand for."""
        least = (self._windows - 1) * self._window_s
        if not self._samples:
            return least or self._window_s
        since = now - self._samples[0][0]
        full = since // self._window_s
        if full < self._windows - 1:
            since += (self._windows - 1 - full) * self._window_s
        return max(since, self._window_s)

    def is_idle(self, now: float) -> bool:
        """True if nothing was recorded in the last windows, as in a new rate."""
        self._purge(now)
        return not self._samples

    def _purge(self, now: float) -> None:
        samples, oldest = self._samples, now - self._windows * self._window_s
        while samples and samples[0][0] <= oldest:
            self.total -= samples.popleft()[1]
        if not samples:
            self.total = 0.0


class Meter:
    """One quota of one client: a rate and its bound.

    Most requests are far below the bound, and only add to `spent`: until `spare_until`, when the
    window ends, `spare` is what may be recorded in it, and `spent` is not in the rate yet.
    """

    __slots__ = ("__weakref__", "_bound", "_sample", "rate", "spare", "spare_until", "spent")

    def __init__(self, bound: float, windows: int = WINDOWS, window_s: float = WINDOW_S) -> None:
        self._bound = bound
        self.rate = QuotaRate(windows, window_s)
        self._sample = [0.0, 0.0]
        self.spent = self.spare = 0.0
        self.spare_until = -math.inf

    @property
    def bound(self) -> float:
        return self._bound

    @bound.setter
    def bound(self, bound: float) -> None:
        self._bound = bound
        self.spare_until = -math.inf

    def record(self, value: float, now: float) -> int:
        """Record, and return for how many milliseconds the client is throttled."""
        self._settle()
        self.rate.record(value, now)
        self.spare_until = -math.inf
        return self.throttle_ms(now)

    def has_spare(self, value: float, now: float) -> bool:
        """True if so much more cannot exceed the bound; False if it may, and `record` decides."""
        if now >= self.spare_until:
            self._settle()
            self._sample, self.spare_until = self.rate.current_window(now)
            self.spare = self._bound * self.rate.least_elapsed - self.rate.total
        return self.spent + value <= self.spare

    def _settle(self) -> None:
        """Record what was spent in the window that it was spent in."""
        self._sample[1] += self.spent
        self.rate.total += self.spent
        self.spare -= self.spent
        self.spent = 0.0

    def throttle_ms(self, now: float) -> int:
        rate = self.rate.per_second(now)
        if rate <= self._bound:
            return 0
        if self._bound <= 0:
            return int(self.rate.elapsed(now) * 1000)
        return int((rate - self._bound) / self._bound * self.rate.elapsed(now) * 1000)

    def most_at_once(self, windows: int, window_s: float) -> int:
        """The most to send in one answer, so that a client with a small quota still progresses."""
        return int(self.bound * (windows - 1) * window_s)

    def is_idle(self, now: float) -> bool:
        """True if a new meter would measure the same."""
        self._settle()
        return self.rate.is_idle(now)


class TokenBucket:
    """The quota on changes of topics (KIP-599): a burst is saved up, and may be overdrawn once."""

    __slots__ = ("__weakref__", "_at", "_most", "bound", "tokens")

    def __init__(self, bound: float, windows: int, window_s: float, now: float) -> None:
        self.bound = bound
        self._most = bound * windows * window_s
        self.tokens = self._most
        self._at = now

    def try_take(self, count: float, now: float, *, strict: bool) -> bool:
        """Take tokens; False, none taken, if the bucket is overdrawn and the quota is strict."""
        self._fill(now)
        if strict and self.tokens < 0:
            return False
        self.tokens -= count
        return True

    def throttle_ms(self, now: float) -> int:
        self._fill(now)
        if self.tokens >= 0:
            return 0
        return int(-self.tokens / self.bound * 1000) if self.bound > 0 else 1000

    def is_idle(self, now: float) -> bool:
        """True if it is full, as a new bucket."""
        self._fill(now)
        return self.tokens >= self._most

    def _fill(self, now: float) -> None:
        self.tokens = min(self._most, self.tokens + (now - self._at) * self.bound)
        self._at = now
