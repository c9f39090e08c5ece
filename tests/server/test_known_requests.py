"""Requests that are known by their first bytes: few enough, whatever clients send."""

import struct
from typing import Any, cast

import pytest

from barnabas.server.metrics.request_statistics import RequestStatistics
from barnabas.server.network import known_requests
from barnabas.server.network.known_requests import FEW_SHORTCUTS, KnownRequests
from barnabas.wire.apis import ApiKey

SHORTCUT = cast(Any, object())


def remember(known: KnownRequests, number: int, key: ApiKey = ApiKey.PRODUCE) -> None:
    frame = memoryview(struct.pack(">hhii", key, 9, 0, number))
    known.remember(frame, len(frame), SHORTCUT)


def test_all_connections_together_know_a_bounded_number_of_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known_requests, "MANY_SHORTCUTS", 100)
    statistics = RequestStatistics()
    connections = [KnownRequests(statistics) for _ in range(50)]
    for known in connections:
        for number in range(60):
            remember(known, number)
            remember(known, number)  # which is no other
    assert statistics.shortcuts == sum(len(known.shortcuts) for known in connections)
    assert statistics.shortcuts <= 100 + FEW_SHORTCUTS * 50
    assert all(known.size for known in connections)
    for known in connections:
        known.forget()
    assert statistics.shortcuts == 0


def test_requests_of_another_api_take_the_place_of_those_before() -> None:
    statistics = RequestStatistics()
    known = KnownRequests(statistics)
    for key in (ApiKey.PRODUCE, ApiKey.FETCH):
        for number in range(5):
            remember(known, number, key)
        assert (len(known.shortcuts), statistics.shortcuts) == (5, 5)
