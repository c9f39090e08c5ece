"""The demo's shop: its seed determines the orders, and these its clock."""

import json
from collections import Counter
from datetime import datetime, timedelta
from itertools import islice

from barnabas.demo.shop import CATEGORIES, CLOSING, OPENED, Shop


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


def test_the_closing_order_is_later_than_the_watermark_of_the_last_order() -> None:
    shop, patience = Shop(100, 1), timedelta(minutes=20)
    last = list(islice(shop.orders(), 950))[-1]
    closing = shop.closing(950, patience)
    assert closing.category == CLOSING
    assert closing.time - patience > last.minute + timedelta(minutes=1)
