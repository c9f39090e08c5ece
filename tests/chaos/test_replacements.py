"""Readers whose client is stuck: it is replaced and reported, and not too often."""

import json
import time
from collections.abc import Callable, Iterator

import pytest

from tests.chaos import load
from tests.chaos.judging import REPLACED_ONCE_IN_S, judge_replacements
from tests.chaos.load import Reader, Replacement, running
from tests.support.cluster import until

NOBODY = "127.0.0.1:1"


Replaced = Callable[[int], Reader]


@pytest.fixture
def replaced() -> Iterator[Replaced]:
    """A reader of one partition whose client was replaced this often."""
    readers: list[Reader] = []

    def make(times: int) -> Reader:
        readers.append(Reader(NOBODY, "t", 1))
        readers[-1].replacements += [Replacement({}, time.monotonic()) for _ in range(times)]
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()
        reader.run()


def test_one_client_may_be_replaced_in_a_short_run_and_more_in_a_long_one(
    replaced: Replaced,
) -> None:
    judge_replacements([replaced(1), replaced(0)], 20)
    judge_replacements([replaced(2), replaced(1)], 2 * REPLACED_ONCE_IN_S)
    for seconds in (20, REPLACED_ONCE_IN_S - 1):
        with pytest.raises(AssertionError, match="asked nobody"):
            judge_replacements([replaced(1), replaced(1)], seconds)


def test_clients_that_never_find_a_broker_fail_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "REPLACED_AFTER_S", 0.1)
    reader = Reader(NOBODY, "t", 1)
    with running([reader]):
        until(lambda: len(reader.replacements) > 1, "the second replacement")
    with pytest.raises(AssertionError, match="asked nobody"):
        judge_replacements([reader], 20)


def test_the_first_view_of_the_new_client_is_reported(replaced: Replaced) -> None:
    reader = replaced(1)
    for leader, broker in ((3, -1), (4, 4), (5, 5)):
        partitions = {"0": {"leader": leader, "broker": broker}, "-1": {"leader": -1, "broker": -1}}
        reader._on_statistics(json.dumps({"topics": {"t": {"partitions": partitions}}}))
    (replacement,) = reader.replacements
    assert replacement.fresh_leaders == {"0": 3}
    assert replacement.had_broker_after_s is not None
    assert "the fresh client knew {'0': 3}" in repr(reader)


def test_the_last_view_of_the_stuck_client_is_reported(replaced: Replaced) -> None:
    reader = replaced(0)
    partitions = {"0": {"leader": 7, "broker": -1}}
    reader._on_statistics(json.dumps({"topics": {"t": {"partitions": partitions}}}))
    reader._replace()
    (replacement,) = reader.replacements
    assert (replacement.stuck_leaders, replacement.fresh_leaders) == ({"0": 7}, None)
