"""Ports that are chosen before their server is there."""

import socket

from barnabas.base.ports import FIRST, LAST, free_port, is_free
from barnabas.base.randomness import Random


def test_a_port_that_is_in_use_is_not_chosen() -> None:
    seed = 1
    first = free_port(random=Random(seed))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert not is_free("127.0.0.1", first)
        assert free_port(random=Random(seed)) != first


def test_it_lies_where_no_connection_takes_it_by_chance() -> None:
    assert all(FIRST <= free_port(random=Random(seed)) < LAST for seed in range(20))
