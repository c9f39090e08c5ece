"""Random operations, and the conditions that must hold for each afterwards."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from random import Random
from typing import Final

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.znodes import layout, paths
from tests.cluster.conftest import BROKERS
from tests.cluster.operations import (
    PREFERRED,
    create,
    delete,
    elect,
    grow,
    partitions,
    reassign,
)
from tests.support.agreement import znodes
from tests.support.cluster import Cluster

Homes = dict[int, tuple[int, ...]]


def homes(cluster: Cluster, topic: str) -> Homes:
    return {index: tuple(p.replica_nodes) for index, p in partitions(cluster, topic).items()}


class Asked(ABC):
    """One operation: `perform` may fail in any way, `judge` is called when all has settled."""

    def __init__(self, cluster: Cluster, topic: str, chance: Random) -> None:
        self.cluster = cluster
        self.topic = topic
        self.before = homes(cluster, topic)
        self.chance = chance

    @abstractmethod
    def perform(self) -> None: ...

    @abstractmethod
    def is_right(self, after: Homes) -> bool:
        """True if it is done, or cleanly undone."""

    def judge(self) -> None:
        after = homes(self.cluster, self.topic)
        assert self.is_right(after), f"{self}: before {self.before}, after {after}"

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()} {self.topic}"


class Create(Asked):
    def perform(self) -> None:
        create(self.cluster, self.topic, 12)

    def is_right(self, after: Homes) -> bool:
        return len(after) in (0, 12)


class Grow(Asked):
    def perform(self) -> None:
        grow(self.cluster, self.topic, len(self.before) + 5)

    def is_right(self, after: Homes) -> bool:
        return len(after) in (len(self.before), len(self.before) + 5)


class Delete(Asked):
    def perform(self) -> None:
        delete(self.cluster, self.topic)

    def is_right(self, after: Homes) -> bool:
        return after in ({}, self.before)


class Elect(Asked):
    def perform(self) -> None:
        elect(self.cluster, PREFERRED)

    def is_right(self, after: Homes) -> bool:
        return after == self.before


class Move(Asked):
    """Some partitions are reassigned by request, a few are cancelled or replaced at once."""

    def __init__(self, cluster: Cluster, topic: str, chance: Random) -> None:
        super().__init__(cluster, topic, chance)
        chosen = sorted(chance.sample(sorted(self.before), min(6, len(self.before))))
        self.targets = [{index: self._target() for index in chosen} for _ in range(2)]
        self.cancelled = chosen[:2]

    def _target(self) -> tuple[int, ...]:
        return tuple(self.chance.sample(BROKERS, self.chance.randint(1, 3)))

    def perform(self) -> None:
        first, second = self.targets
        reassign(self.cluster, self._named(first))
        reassign(self.cluster, dict.fromkeys(self._named(dict.fromkeys(self.cancelled, ())), None))
        reassign(self.cluster, self._named({n: second[n] for n in list(second)[-2:]}))

    def _named(
        self, targets: Mapping[int, tuple[int, ...]]
    ) -> dict[TopicPartition, tuple[int, ...]]:
        return {TopicPartition(self.topic, index): to for index, to in targets.items()}

    def is_right(self, after: Homes) -> bool:
        """The replicas of the first or second request, or the original ones in any order."""
        return len(after) == len(self.before) and all(
            after[index] in [targets.get(index) for targets in self.targets]
            or sorted(after[index]) == sorted(self.before[index])
            for index in after
        )


class MoveByNode(Move):
    """A reassignment in the tree is done by any controller."""

    def perform(self) -> None:
        plan = {each: tuple(map(BrokerId, to)) for each, to in self._named(self.targets[0]).items()}
        with znodes(self.cluster.zookeeper) as client:
            client.create(paths.REASSIGN_PARTITIONS, layout.encode_reassignment(plan))

    def is_right(self, after: Homes) -> bool:
        return after == {**self.before, **self.targets[0]}


OPERATIONS: Final[list[type[Asked]]] = [Create, Grow, Delete, Elect, Move, MoveByNode]
