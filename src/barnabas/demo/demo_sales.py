"""The demo's producer of orders, and the ledger of acknowledged ones."""

import threading
from array import array
from collections import Counter
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from barnabas.base.clock import Stopwatch
from barnabas.cli.exit_codes import CommandFailed
from barnabas.demo.shop import OPENING, Order, Shop

ORDERS: Final = "orders"
TICKS_PER_S: Final = 10
_NS_PER_S: Final = 1_000_000_000
_WAIT_S: Final = 0.02
# Idempotent, so retries are not duplicated; it retries until message.timeout.ms.
_RELIABLE: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "message.timeout.ms": 180_000,
    "linger.ms": 5,
    "queue.buffering.max.messages": 1_000_000,  # more than the till may be ahead
    "log_level": 0,
}

Window = tuple[datetime, str]


class Total(NamedTuple):
    """A number of orders and their revenue."""

    orders: int
    cents: int

    def plus(self, order: Order) -> "Total":
        return Total(self.orders + 1, self.cents + order.cents)


class Gap(NamedTuple):
    """A period without acknowledgements from a partition, in seconds since the shop opened."""

    partition: int
    begin_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


class Ledger:
    """The acknowledged orders. Written by the till's thread only, read by others."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.revenue: dict[Window, Total] = {}
        self.sent_s = array("d")  # when each order was sent, as they were acknowledged
        self.failures: list[str] = []
        # By tenth of a second since the opening and by partition.
        self.acknowledgements: Counter[tuple[int, int]] = Counter()
        self.slowest_s: dict[int, float] = {}
        self.longest: dict[int, Gap] = {}
        self._last_s: dict[int, float] = {}

    @property
    def total(self) -> Total:
        sold = list(self.revenue.values())
        return Total(sum(each.orders for each in sold), sum(each.cents for each in sold))

    def note(self, order: Order, partition: int, sent_s: float, now_s: float) -> None:
        """Add an acknowledged order."""
        self.sent_s.append(sent_s)
        self.acknowledged += 1
        window = order.minute, order.category
        self.revenue[window] = self.revenue.get(window, Total(0, 0)).plus(order)
        tick = int(now_s * TICKS_PER_S)
        self.acknowledgements[tick, partition] += 1
        self.slowest_s[tick] = max(self.slowest_s.get(tick, 0.0), now_s - sent_s)
        gap = Gap(partition, self._last_s.get(partition, now_s), now_s)
        if partition not in self.longest or gap.seconds > self.longest[partition].seconds:
            self.longest[partition] = gap
        self._last_s[partition] = now_s


class Till:
    """Sends orders at the shop's pace, in its own thread.

    It is at most `most_ahead` orders ahead of the oldest unacknowledged one, which bounds the
    memory of the producer, however long a broker is down.
    """

    def __init__(
        self, bootstrap: str, shop: Shop, per_second: int, most_ahead: int, stopwatch: Stopwatch
    ) -> None:
        self.ledger = Ledger()
        self._shop = shop
        self._orders = shop.orders()
        self._per_second = per_second
        self._most_ahead = most_ahead
        self._stopwatch = stopwatch
        self._opened_ns = stopwatch()
        self._producer = Producer({"bootstrap.servers": bootstrap, **_RELIABLE})
        self._waiting: dict[int, None] = {}  # numbers in the order they were sent
        self._stopped = threading.Event()

    @property
    def open_s(self) -> float:
        """Seconds since the shop opened."""
        return self.since(self._stopwatch())

    def since(self, moment_ns: int) -> float:
        """The seconds from the opening to a moment of the stopwatch."""
        return (moment_ns - self._opened_ns) / _NS_PER_S

    def sell(self, seconds: float) -> None:
        """Sell for this long, then wait until all orders are acknowledged.

        Raises  CommandFailed if an order could not be delivered
        """
        last = int(seconds * self._per_second)
        self._opened_ns = self._stopwatch()
        while self.ledger.sent < last and not self._stopped.is_set():
            due = min(last, int(self.open_s * self._per_second))
            while self.ledger.sent < due and not self._is_far_ahead and not self.ledger.failures:
                self._send(next(self._orders))
                self.ledger.sent += 1
            self._producer.poll(_WAIT_S)
            self._raise_if_failed()
        self._deliver_all()

    def open_shop(self) -> None:
        """Send the opening message. Raises CommandFailed if it cannot be delivered."""
        self._send(self._shop.opening())
        self._deliver_all()

    def stop(self) -> None:
        """Give up, from another thread; orders in flight may or may not arrive."""
        self._stopped.set()

    @property
    def _is_far_ahead(self) -> bool:
        oldest = next(iter(self._waiting), self.ledger.sent)
        return self.ledger.sent - oldest >= self._most_ahead

    def _send(self, order: Order) -> None:
        self._waiting[order.number] = None
        delivered = partial(self._on_delivery, order, self.open_s)
        self._producer.produce(ORDERS, order.value(), order.key(), on_delivery=delivered)
        self._producer.poll(0)

    def _on_delivery(
        self, order: Order, sent_s: float, error: KafkaError | None, message: Message
    ) -> None:
        del self._waiting[order.number]
        if error is not None:
            self.ledger.failures.append(f"order {order.number}: {error.str()}")
        elif order.category != OPENING:
            partition = message.partition()
            assert partition is not None
            self.ledger.note(order, partition, sent_s, self.open_s)

    def _deliver_all(self) -> None:
        while self._waiting and not self._stopped.is_set():
            self._producer.poll(_WAIT_S)
        self._raise_if_failed()

    def _raise_if_failed(self) -> None:
        if self.ledger.failures:
            raise CommandFailed(f"delivery failed: {self.ledger.failures[0]}")
