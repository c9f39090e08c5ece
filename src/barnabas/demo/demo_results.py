"""The results of the demo's query as they arrive in their topic, and how old they are."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from barnabas.demo.demo_pipeline import REVENUE
from barnabas.demo.shop import OPENING

_PARTS_PER_S: Final = 100
_POLL_S: Final = 0.1
_CONSUMER: Final = {
    "group.id": "demo-results",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 50,
    "log_level": 0,
}


class Freshness:
    """The seconds from sending an order to the result that counts it."""

    def __init__(self, sent_s: Sequence[float]) -> None:
        self.counted = 0
        self.longest_s = 0.0
        self._sent_s = sent_s  # of every acknowledged order; grows
        self._parts: Counter[int] = Counter()

    def note(self, counted: int, now_s: float) -> None:
        """The results count so many orders now."""
        for number in range(self.counted, min(counted, len(self._sent_s))):
            took_s = max(0.0, now_s - self._sent_s[number])
            self.longest_s = max(self.longest_s, took_s)
            self._parts[int(took_s * _PARTS_PER_S)] += 1
            self.counted = number + 1

    @property
    def median_s(self) -> float:
        """The median to a hundredth of a second; 0 without any result."""
        passed = 0
        for part, orders in sorted(self._parts.copy().items()):
            passed += orders
            if 2 * passed >= self.counted:
                return part / _PARTS_PER_S
        return 0.0

    def __str__(self) -> str:
        return f"p50 {self.median_s:.1f} s, max {self.longest_s:.1f} s"


class LiveResults:
    """Consumes the results: `follow`, in its own thread, calls `on_counted` with the orders."""

    def __init__(self, bootstrap: str, partitions: int, on_counted: Callable[[int], None]) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **_CONSUMER})
        self._assigned = [TopicPartition(REVENUE, number, 0) for number in range(partitions)]
        self._on_counted = on_counted
        self._orders: dict[bytes, int] = {}  # by key: the latest record counts
        self._closed = threading.Event()

    def follow(self) -> None:
        self._consumer.assign(self._assigned)
        while not self._closed.is_set():
            for message in self._consumer.consume(500, _POLL_S):
                self._note(message)
            self._on_counted(sum(self._orders.values()))
        self._consumer.close()

    def close(self) -> None:
        self._closed.set()

    def _note(self, message: Message) -> None:
        if message.error() is None:
            result = json.loads(message.value() or b"{}")
            if result.get("category") != OPENING:
                self._orders[bytes(message.key() or b"")] = result["orders"]
