"""Replication throttles (KIP-73): the rate at which some replicas are copied, on either side.

A topic lists its throttled replicas, as `partition:broker` pairs or `*`; a broker has one rate for
all of them. Callers exempt replicas that are in sync: a throttle must not make them fall out.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final

from barnabas.base.ids import BrokerId

NO_LIMIT: Final = 2**63 - 1
WINDOWS: Final = 11  # Kafka's replication.quota.window.num
WINDOW_S: Final = 1.0  # and replication.quota.window.size.seconds


class WindowedRate:
    """Bytes per second over the last windows, as Kafka's SimpleRate measures them.

    Until the first window is over it counts as a whole one, so that a first large answer does
    not look like an immense rate.
    """

    def __init__(self, now: Callable[[], float], windows: int = WINDOWS) -> None:
        self._now = now
        self._keep_s = windows * WINDOW_S
        self._windows: deque[tuple[float, float]] = deque()  # when each began, and its bytes

    def record(self, size: int) -> None:
        now = self._now()
        if not self._windows or now - self._windows[-1][0] >= WINDOW_S:
            self._windows.append((now, 0.0))
        began, total = self._windows[-1]
        self._windows[-1] = (began, total + size)

    def per_second(self) -> float:
        now, windows = self._now(), self._windows
        while windows and now - windows[0][0] >= self._keep_s + WINDOW_S:
            windows.popleft()
        if not windows:
            return 0.0
        return sum(size for _, size in windows) / max(now - windows[0][0], WINDOW_S)


class ReplicationThrottle:
    """The throttle of leaders, or of followers, on one broker."""

    def __init__(self, broker_id: BrokerId, now: Callable[[], float]) -> None:
        self._broker_id = broker_id
        self._rate = WindowedRate(now)
        self._topics: dict[str, Collection[int] | None] = {}
        self.bytes_per_second = NO_LIMIT

    def set_topic(self, topic: str, replicas: Sequence[str]) -> None:
        """Apply the topic's `*.replication.throttled.replicas`."""
        throttled = decide_throttled(replicas, self._broker_id)
        if throttled is None or throttled:
            self._topics[topic] = throttled
        else:
            self._topics.pop(topic, None)

    def is_throttled(self, topic: str, partition: int) -> bool:
        if topic not in self._topics:
            return False
        partitions = self._topics[topic]
        return partitions is None or partition in partitions

    @property
    def is_exceeded(self) -> bool:
        return self.bytes_per_second < NO_LIMIT and self.per_second() > self.bytes_per_second

    def per_second(self) -> float:
        return self._rate.per_second()

    def record(self, size: int) -> None:
        """Count bytes that were copied for a throttled replica, in sync or not."""
        self._rate.record(size)


def decide_throttled(replicas: Sequence[str], broker_id: BrokerId) -> Collection[int] | None:
    """The partitions whose replica on this broker is in the list; None stands for all of them."""
    if tuple(replicas) == ("*",):
        return None
    pairs = (item.split(":") for item in replicas if ":" in item)
    return {int(partition) for partition, broker in pairs if int(broker) == broker_id}
