"""The demo's shop: its seed determines the orders, and these its clock."""

import json
from collections import Counter
from datetime import datetime, timedelta
from itertools import islice

from barnabas.demo.shop import CATEGORIES, OPENED, OPENING, Shop


def test_equal_seeds_sell_equal_orders() -> None:
    first, again, other = (list(islice(Shop(100, seed).orders(), 500)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_every_minute_has_equally_many_orders_in_order() -> None:
    orders = list(islice(Shop(100, 1).orders(), 1000))
    assert [order.number for order in orders] == list(range(1000))
    assert orders == sorted(orders, key=lambda order: order.time)
    minutes = Counter(order.minute for order in orders)
    assert minutes == {OPENED + timedelta(minutes=n): 100 for n in range(10)}


def test_prices_are_in_the_range_of_their_category() -> None:
    orders = list(islice(Shop(100, 1).orders(), 3000))
    assert {order.category for order in orders} == set(CATEGORIES)
    for order in orders:
        _, least, most = CATEGORIES[order.category]
        assert least <= order.cents <= most


def test_a_message_contains_the_whole_order() -> None:
    order = next(Shop(100, 1).orders())
    told = json.loads(order.value())
    assert datetime.fromisoformat(told.pop("time")) == order.time
    assert told == {
        "order": 0,
        "customer": order.customer,
        "category": order.category,
        "cents": order.cents,
    }
    assert order.key() == f"customer-{order.customer}".encode()


def test_the_opening_message_is_no_order() -> None:
    opening = Shop(100, 1).opening()
    assert (opening.number, opening.category, opening.cents) == (-1, OPENING, 0)
    assert OPENING not in CATEGORIES
