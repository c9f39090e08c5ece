"""Random faults of brokers: killed, paused, cut off, restarted."""

import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from tests.chaos.cluster import CutCluster
from tests.chaos.network import ZOOKEEPER, Cut, isolation

# Longer than the session timeout, so that the broker is replaced meanwhile; or shorter, so that it
# returns with its session.
LONG_S: Final = (3.0, 6.0)
SHORT_S: Final = (0.2, 1.5)
OFTEN_LONG: Final = 0.7
TWO_AT_ONCE: Final = 0.2
NO_TIME_TO_HEAL: Final = 0.25

End = Callable[[], None]


class Injected(NamedTuple):
    """A fault, the partitions that its broker led, and the time of the recovery."""

    kind: str
    broker: int
    led: tuple[int, ...]
    at: float
    over_at: float


class Faults:
    """Injects faults into leaders; usually waits for the cluster to recover between them."""

    def __init__(self, cluster: CutCluster, topic: str, random: Random) -> None:
        self._cluster = cluster
        self._topic = topic
        self._random = random
        self.injected: list[Injected] = []

    @property
    def by_kind(self) -> dict[str, int]:
        return dict(sorted(Counter(each.kind for each in self.injected).items()))

    def inject(self) -> None:
        """Inject and end one fault, or two at the same time; all brokers run afterwards."""
        began = [self._begin(self._victim([]))]
        if len(self._cluster.running) > 1 and self._random.random() < TWO_AT_ONCE:
            began.append(self._begin(self._victim([began[0][0].broker])))
        bounds = LONG_S if self._random.random() < OFTEN_LONG else SHORT_S
        time.sleep(self._random.uniform(*bounds))
        # A broker does not start without ZooKeeper.
        for _, end in sorted(began, key=lambda each: each[0].kind in STARTED_AGAIN):
            end()
        if self._random.random() < NO_TIME_TO_HEAL:
            time.sleep(self._random.uniform(*SHORT_S))
        else:
            self._cluster.wait_in_sync(self._topic)
        over_at = time.monotonic()
        self.injected += [fault._replace(over_at=over_at) for fault, _ in began]

    def _victim(self, spared: list[int]) -> int:
        """The leader of a random partition; sometimes any broker."""
        able = [number for number in self._cluster.running if number not in spared]
        told = self._cluster.partitions(self._topic, able[0])
        leaders = [number for number in able for p in told if p.leader_id == number]
        return self._random.choice(leaders if leaders and self._random.random() < 0.8 else able)

    def _begin(self, broker: int) -> tuple[Injected, End]:
        kind = self._random.choice(list(KINDS))
        partitions = self._cluster.partitions(self._topic, broker)
        led = tuple(p.partition_index for p in partitions if p.leader_id == broker)
        fault = Injected(kind, broker, led, time.monotonic(), 0.0)
        breaking = self._random.random() < 0.5
        return fault, KINDS[kind](self._cluster, broker, breaking)


def _kill(cluster: CutCluster, broker: int, _: bool) -> End:
    cluster.brokers[broker].kill()
    return cluster.brokers[broker].start


def _kill_everybody(cluster: CutCluster, _: int, __: bool) -> End:
    killed = list(cluster.running)
    for broker in killed:
        cluster.brokers[broker].kill()
    return lambda: cluster.start(killed)


def _restart(cluster: CutCluster, broker: int, _: bool) -> End:
    cluster.brokers[broker].stop()
    return cluster.brokers[broker].start


def _pause(cluster: CutCluster, broker: int, _: bool) -> End:
    cluster.brokers[broker].pause()
    return cluster.brokers[broker].resume


def _cut_from_brokers(cluster: CutCluster, broker: int, breaking: bool) -> End:
    cluster.network.cut(isolation(broker, [n for n in cluster.brokers if n != broker]))
    return lambda: cluster.network.mend(breaking=breaking)


def _cut_from_zookeeper(cluster: CutCluster, broker: int, breaking: bool) -> End:
    cluster.network.cut(isolation(broker, [ZOOKEEPER]))
    return lambda: cluster.network.mend(breaking=breaking)


def _cut_from_all(cluster: CutCluster, broker: int, breaking: bool) -> End:
    others = [n for n in cluster.brokers if n != broker]
    cluster.network.cut(isolation(broker, [*others, ZOOKEEPER]))
    return lambda: cluster.network.mend(breaking=breaking)


def _lose_answers(cluster: CutCluster, broker: int, breaking: bool) -> End:
    """Requests of the others are served, but the responses are lost."""
    others = [n for n in cluster.brokers if n != broker]
    cluster.network.cut([Cut(other, broker, only_answers=True) for other in others])
    return lambda: cluster.network.mend(breaking=breaking)


def _cut_everybody_from_zookeeper(cluster: CutCluster, _: int, breaking: bool) -> End:
    cluster.network.cut([Cut(broker, ZOOKEEPER) for broker in cluster.brokers])
    return lambda: cluster.network.mend(breaking=breaking)


STARTED_AGAIN: Final = ("killed", "everybody killed", "restarted")
KINDS: Final[dict[str, Callable[[CutCluster, int, bool], End]]] = {
    "killed": _kill,
    "everybody killed": _kill_everybody,
    "paused": _pause,
    "restarted": _restart,
    "cut off from brokers": _cut_from_brokers,
    "cut off from ZooKeeper": _cut_from_zookeeper,
    "cut off from all": _cut_from_all,
    "answers lost": _lose_answers,
    "ZooKeeper gone": _cut_everybody_from_zookeeper,
}
