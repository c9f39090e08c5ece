"""The orders of the demo's shop, deterministic by seed.

The shop has its own clock, with the same number of orders in each minute: an order's number
determines its time. So the results do not depend on the speed of the machine.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from barnabas.base.randomness import Random

OPENED: Final = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)
# Categories: share in percent, minimal and maximal price in cents.
CATEGORIES: Final = {
    "books": (34, 499, 4_999),
    "coffee": (27, 350, 2_400),
    "games": (16, 1_499, 6_999),
    "garden": (12, 299, 12_900),
    "music": (8, 799, 3_999),
    "travel": (3, 4_900, 89_900),
}
# The category of the opening message, which wakes the query before the first order.
OPENING: Final = "opening"
CUSTOMERS: Final = 5_000

_WHEEL: Final = [name for name, (share, _, _) in CATEGORIES.items() for _ in range(share)]


class Order(NamedTuple):
    """One sale, or the opening of the shop."""

    number: int
    time: datetime
    customer: int
    category: str
    cents: int

    @property
    def minute(self) -> datetime:
        return self.time.replace(second=0, microsecond=0)

    def key(self) -> bytes:
        """The key is the customer: their orders stay in one partition, in order."""
        return b"customer-%d" % self.customer

    def value(self) -> bytes:
        fields = {
            "order": self.number,
            "time": self.time.isoformat(timespec="milliseconds"),
            "customer": self.customer,
            "category": self.category,
            "cents": self.cents,
        }
        return json.dumps(fields, separators=(",", ":")).encode()


class Shop:
    """Sells `per_minute` orders in each minute of its own clock."""

    def __init__(self, per_minute: int, seed: int) -> None:
        self._per_minute = per_minute
        self._random = Random(seed)

    def orders(self) -> Iterator[Order]:
        """All orders, from number 0 on; call it once per shop."""
        number = 0
        while True:
            category = _WHEEL[self._random.below(len(_WHEEL))]
            _, least, most = CATEGORIES[category]
            customer = self._random.below(CUSTOMERS)
            cents = least + self._random.below(most - least + 1)
            yield Order(number, self.time_of(number), customer, category, cents)
            number += 1

    def opening(self) -> Order:
        """The opening message, before the first order."""
        return Order(-1, self.time_of(0), 0, OPENING, 0)

    def time_of(self, number: int) -> datetime:
        return OPENED + timedelta(milliseconds=number * 60_000 // self._per_minute)
