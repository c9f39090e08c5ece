"""Messages about partitions that nobody leads, before anything is read from them or sent."""

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cli.client import await_leaders, without_leader
from barnabas.cli.exit_codes import CommandFailed


def metadata(*leaders: int, brokers: tuple[int, ...] = (0,)) -> Any:
    """A topic `t` with such leaders, each partition on brokers 0 and 1."""
    partitions = {
        number: SimpleNamespace(leader=leader, replicas=[0, 1])
        for number, leader in enumerate(leaders)
    }
    topic = SimpleNamespace(partitions=partitions)
    return SimpleNamespace(brokers=dict.fromkeys(brokers), topics={"t": topic})


class Client:
    """Finds at each look what comes next, and is patient without losing time."""

    def __init__(self, *looks: Any) -> None:
        self.looks = list(looks)

    def poll(self, timeout: float) -> None:
        return None

    def list_topics(self, topic: str, timeout: float) -> Any:
        return self.looks.pop(0) if self.looks[1:] else self.looks[0]


def client(*looks: Any) -> Any:
    return Client(*looks)


def test_a_partition_without_a_leader_is_named_with_the_brokers_that_are_down() -> None:
    told = "t [1] has no leader now: brokers that hold it are down (1)"
    assert without_leader(metadata(0, -1), "t", [0, 1]) == told
    assert without_leader(metadata(0, 1), "t", [0, 1]) == told
    assert without_leader(metadata(0, -1), "t", [0]) == ""
    all_live = metadata(-1, brokers=(0, 1))
    assert without_leader(all_live, "t", [0]) == "t [0] has no leader now"


def test_an_election_under_way_is_waited_for() -> None:
    await_leaders(client(metadata(-1), metadata(0)), metadata(-1), "t", [0])


def test_a_leader_that_does_not_come_is_one_line() -> None:
    with pytest.raises(CommandFailed, match=r"t \[0\] has no leader now: brokers that hold it"):
        await_leaders(client(metadata(-1)), metadata(-1), "t", [0])
