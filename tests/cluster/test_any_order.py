"""Operations and faults in any order: each operation is done or undone, and all views agree.

Faults happen at random times, not on conditions: any moment may be hit.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from random import Random
from threading import Thread
from typing import Final

import pytest

from tests.cluster.asked import OPERATIONS, Asked, Create, Delete, Move
from tests.cluster.conftest import BROKERS, revive
from tests.cluster.operations import create, next_controller
from tests.support.agreement import elected
from tests.support.chaos import SECONDS, chaos_seed
from tests.support.cluster import Cluster

LATEST_S: Final = 0.5
LARGEST_TOPIC: Final = 40

pytestmark = pytest.mark.timeout(SECONDS * 2 + 300)


def kill_the_controller(cluster: Cluster, chance: Random) -> None:
    cluster.brokers[_controller(cluster)].kill()


def kill_any(cluster: Cluster, chance: Random) -> None:
    cluster.brokers[chance.choice(BROKERS)].kill()


def kill_all(cluster: Cluster, chance: Random) -> None:
    for number in chance.sample(BROKERS, len(BROKERS)):
        cluster.brokers[number].kill()


def kill_two_controllers(cluster: Cluster, chance: Random) -> None:
    first = _controller(cluster)
    cluster.brokers[first].kill()
    cluster.brokers[next_controller(cluster, first)].kill()


def stop_any(cluster: Cluster, chance: Random) -> None:
    cluster.brokers[chance.choice(BROKERS)].stop()


def pause_the_controller(cluster: Cluster, chance: Random) -> None:
    """Wait until another controller was elected."""
    sleeper = cluster.brokers[_controller(cluster)]
    sleeper.pause()
    try:
        next_controller(cluster, sleeper.node_id)
    finally:
        sleeper.resume()


def pause_any_for_a_moment(cluster: Cluster, chance: Random) -> None:
    sleeper = cluster.brokers[chance.choice(BROKERS)]
    sleeper.pause()
    time.sleep(chance.uniform(0, 1))
    sleeper.resume()


def _controller(cluster: Cluster) -> int:
    found = elected(cluster.zookeeper)
    assert found is not None
    return found


FAULTS: Final[list[Callable[[Cluster, Random], None]]] = [
    kill_the_controller,
    kill_any,
    kill_all,
    kill_two_controllers,
    stop_any,
    pause_the_controller,
    pause_any_for_a_moment,
]


class Choices:
    """Random operations on topics; names are used once."""

    def __init__(self, cluster: Cluster, topic: str, chance: Random) -> None:
        self._cluster = cluster
        self._chance = chance
        self._names = (f"{topic}-{number}" for number in count())
        # A replica that was reassigned while its broker was down stays there, as in Kafka, and is
        # not deleted with its topic.
        self._stay, self._go = next(self._names), next(self._names)
        for name in (self._stay, self._go):
            create(cluster, name, 10)
        cluster.wait_settled()

    def next(self) -> Asked:
        kind = self._chance.choice(OPERATIONS)
        if kind is Create:
            self._go = next(self._names)
            return Create(self._cluster, self._go, self._chance)
        name = self._stay if issubclass(kind, Move) else self._go
        asked = kind(self._cluster, name, self._chance)
        if not asked.before or len(asked.before) > LARGEST_TOPIC:
            return Delete(self._cluster, self._go, self._chance) if asked.before else self.next()
        return asked


def perform_quietly(asked: Asked) -> None:
    with suppress(OSError, AssertionError):
        asked.perform()


@pytest.mark.long
def test_operations_are_done_or_undone_whatever_fails_during_them(
    cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = chaos_seed()
    chance = Random(seed)
    choices = Choices(cluster, topic, chance)
    ends, told = time.monotonic() + SECONDS, [f"seed {seed}, {SECONDS} s"]
    try:
        while time.monotonic() < ends:
            asked, fault = choices.next(), chance.choice(FAULTS)
            moment_s = LATEST_S * chance.random() ** 3  # most of them early
            told.append(f"{asked}; after {moment_s:.3f} s: {fault.__name__}")
            thread = Thread(target=perform_quietly, args=[asked])
            thread.start()
            time.sleep(moment_s)
            fault(cluster, chance)
            revive(cluster)
            thread.join()
            cluster.wait_settled()
            asked.judge()
    finally:
        with capsys.disabled():
            print("\n" + "\n".join(told))
