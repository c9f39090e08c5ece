"""Ports that are chosen before their server is there."""

import socket

import pytest

from barnabas.base.ports import FIRST, LAST, RANGE, free_port, is_free
from barnabas.base.randomness import Random


def test_a_port_that_is_in_use_is_not_chosen() -> None:
    seed = 1
    first = free_port(random=Random(seed))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert not is_free("127.0.0.1", first)
        assert free_port(random=Random(seed)) != first


def test_no_port_is_chosen_twice_though_its_server_is_not_there_yet() -> None:
    assert free_port(random=Random(2)) != free_port(random=Random(2))


def test_it_lies_where_no_connection_takes_it_by_chance() -> None:
    assert all(FIRST <= free_port(random=Random(seed)) < LAST for seed in range(20))


def test_processes_side_by_side_choose_from_ports_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(RANGE, "20000-20100")
    assert all(20_000 <= free_port(random=Random(seed)) < 20_100 for seed in range(20))
    monkeypatch.setenv(RANGE, "any")
    assert FIRST <= free_port() < LAST
