"""A hierarchical timing wheel: adds and cancels tasks in constant time, for millions of tasks.

Theory of operation. A wheel is a ring of 20 buckets, each a doubly linked list of
the tasks whose deadline falls into one tick of that wheel. The innermost wheel ticks
every millisecond and covers 20 ms; each overflow wheel ticks once per turn of the
wheel within it, and is created when a deadline first lies beyond all the others:

    20 x 1 ms = 20 ms,   20 x 20 ms = 400 ms,   20 x 400 ms = 8 s,   20 x 8 s = 160 s, ...

Time is not polled tick by tick: one queue, ordered by time, holds the buckets that have
tasks (never the tasks themselves), and the clock jumps from one to the next. When it reaches
a bucket of an overflow wheel, the tasks in it that are not due yet move to finer wheels.

The wheel has neither a clock nor a loop: the caller passes the time.
"""

import heapq
from abc import ABC, abstractmethod
from operator import attrgetter
from typing import Final

from barnabas.base.laws import law

TICK_MS: Final = 1
WHEEL_SIZE: Final = 20
NEVER_MS: Final = 1 << 62

_by_deadline = attrgetter("deadline_ms")


class TimerTask(ABC):
    """A task with a deadline, and the link in its bucket's list.

    While it waits, `next` and `previous` are its neighbours; otherwise both are None.
    `deadline_ms` is NEVER_MS until it is added, and again once it is cancelled.
    """

    __slots__ = ("deadline_ms", "next", "previous")

    def __init__(self) -> None:
        self.deadline_ms: int = NEVER_MS
        self.next: TimerTask | _Bucket | None = None
        self.previous: TimerTask | _Bucket | None = None

    @abstractmethod
    def run(self) -> None:
        """Called at the deadline."""


class _Bucket:
    """One slot of one wheel: the head of a circular list, linked to itself when empty."""

    __slots__ = ("next", "number", "previous", "queued")

    def __init__(self, number: int) -> None:
        self.number = number
        self.queued = False
        self.next: TimerTask | _Bucket = self
        self.previous: TimerTask | _Bucket = self


class _Wheel:
    """One ring of buckets, for deadlines before `end_ms`."""

    __slots__ = ("buckets", "end_ms", "span_ms", "tick_ms")

    def __init__(self, tick_ms: int, level: int, now_ms: int) -> None:
        first = level * WHEEL_SIZE
        self.tick_ms = tick_ms
        self.span_ms = tick_ms * WHEEL_SIZE
        self.buckets = [_Bucket(number) for number in range(first, first + WHEEL_SIZE)]
        self.turn_to(now_ms)

    def turn_to(self, now_ms: int) -> None:
        """Pass the ticks before `now_ms`; their buckets are empty and are reused."""
        self.end_ms = now_ms - now_ms % self.tick_ms + self.span_ms


class TimingWheel:
    """The tasks until their deadlines; `advance` returns each once, and none early.

    Keeps   PUR-3  a task waits in one bucket at the most
            PUR-4  the time of a wheel never goes back
    """

    __slots__ = ("_queue", "_wheels", "now_ms", "size")

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.size = 0
        self._wheels = [_Wheel(TICK_MS, 0, now_ms)]
        # Each bucket is here at most once. One that cancellations emptied stays until it
        # reaches the front: it is often filled again before.
        self._queue: list[tuple[int, int, _Bucket]] = []

    def __len__(self) -> int:
        return self.size

    def add(self, task: TimerTask, deadline_ms: int) -> bool:
        """Add the task; False, nothing added, if it is due already."""
        if task.next is not None:  # checked here: a call of `law` costs an eighth of the whole
            law(False, "PUR-3 a task waits in one bucket at the most", deadline_ms=deadline_ms)
        if deadline_ms <= self.now_ms:
            return False
        for wheel in self._wheels:
            if deadline_ms < wheel.end_ms:
                break
        else:
            wheel = self._add_overflow_wheels(deadline_ms)
        tick = deadline_ms // wheel.tick_ms
        bucket = wheel.buckets[tick % WHEEL_SIZE]
        last = bucket.previous
        task.deadline_ms = deadline_ms
        task.previous = last
        task.next = bucket
        last.next = bucket.previous = task
        self.size += 1
        if not bucket.queued:
            bucket.queued = True
            heapq.heappush(self._queue, (tick * wheel.tick_ms, bucket.number, bucket))
        return True

    def cancel(self, task: TimerTask) -> bool:
        """Remove the task; False if it was not waiting."""
        task.deadline_ms = NEVER_MS
        before, after = task.previous, task.next
        if before is None or after is None:
            return False
        before.next = after
        after.previous = before
        task.previous = task.next = None
        self.size -= 1
        return True

    @property
    def next_bucket_ms(self) -> int | None:
        """The time of the next `advance`, which no deadline precedes; None without tasks."""
        queue = self._queue
        while queue:
            expiration_ms, _, bucket = queue[0]
            if bucket.next is not bucket:
                return expiration_ms
            heapq.heappop(queue)
            bucket.queued = False
        return None

    def advance(self, now_ms: int) -> list[TimerTask]:
        """Set the time, and return every task that is due, sorted by deadline."""
        law(now_ms >= self.now_ms, "PUR-4 the time of a wheel never goes back", now_ms=now_ms)
        due: list[TimerTask] = []
        later: list[TimerTask] = []
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            _empty(heapq.heappop(queue)[2], now_ms, due, later)
        # All buckets before the new time are empty now, so their slots can be reused.
        self.now_ms = now_ms
        for wheel in self._wheels:
            wheel.turn_to(now_ms)
        self.size -= len(due) + len(later)
        for task in later:
            self.add(task, task.deadline_ms)
        due.sort(key=_by_deadline)
        return due

    def _add_overflow_wheels(self, deadline_ms: int) -> _Wheel:
        wheel = self._wheels[-1]
        while deadline_ms >= wheel.end_ms:
            wheel = _Wheel(wheel.span_ms, len(self._wheels), self.now_ms)
            self._wheels.append(wheel)
        return wheel


def _empty(bucket: _Bucket, now_ms: int, due: list[TimerTask], later: list[TimerTask]) -> None:
    """Unlink all tasks of a bucket that left the queue, and sort them into due and later."""
    task: TimerTask | _Bucket | None = bucket.next
    while task is not None and not isinstance(task, _Bucket):
        after = task.next
        task.previous = task.next = None
        (due if task.deadline_ms <= now_ms else later).append(task)
        task = after
    bucket.next = bucket.previous = bucket
    bucket.queued = False
