"""The workload of an administrator: creates the topics of a run, and keeps changing them."""

from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.retries import Address
from barnabas.sim.checkers.history import (
    COMPACTED,
    FADING,
    RETAINED_BYTES,
    OperationHistory,
    OperationOutcome,
)
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.clients.client_connections import partitions
from barnabas.sim.workloads.workloads import Workload

# Partition counts of topics that are never deleted.
LASTING: Final = {"orders": 2, FADING: 1, COMPACTED: 1}
MOST_PARTITIONS: Final = 4
MOST_PASSING: Final = 2  # temporary topics at a time
MOST_PAUSE_MS: Final = 4_000
MOST_TRIMMED: Final = 30
# No retention: only DeleteTopics removes records.
CONFIG: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
# Configs of the exceptions.
CONFIGS: Final = {
    COMPACTED: {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": "4096",
    },
    FADING: {
        "retention.ms": "-1",
        "retention.bytes": str(RETAINED_BYTES),
        "segment.bytes": "4096",
    },
}


class AdminWorkload(Workload):
    """Creates the permanent topics, then changes something every few seconds.

    With `is_quiet` it only creates them.
    """

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: OperationHistory,
        *,
        is_quiet: bool = False,
        topics: Mapping[str, int] = LASTING,
        replication_factor: int = 3,
    ) -> None:
        super().__init__(name, random)
        self._replication_factor = replication_factor
        self._topics = topics
        self._admin = Admin(name, bootstrap, random, history)
        self._is_quiet = is_quiet
        self._passing: list[str] = []
        self._made = 0
        self._trimmed = 0

    async def run(self) -> None:
        for topic, count in self._topics.items():
            await self._make_surely(topic, count)
        changes = [
            self._create,
            self._delete,
            self._grow,
            self._move,
            self._cancel,
            self._elect,
            self._trim,
        ]
        while not self.is_over:
            await self.rest(MOST_PAUSE_MS)
            if not self._is_quiet and not self.is_over and await self._admin.connections.refresh():
                await changes[self.random.below(len(changes))]()
        self._admin.close()

    async def _make_surely(self, topic: str, count: int) -> None:
        while not self.is_over and topic not in self._admin.connections.topics:
            config = CONFIGS.get(topic, CONFIG)
            made = await self._admin.create(topic, count, self._replication_factor, config)
            if made.outcome is not OperationOutcome.OK:
                await self._admin.connections.back_off()
            await self._admin.connections.refresh()

    async def _create(self) -> None:
        """Create a temporary topic, possibly with the name of a deleted one."""
        number = self.random.below(self._made + 1)
        if len(self._passing) < MOST_PASSING:
            topic = f"passing-{number}"
            self._made = max(self._made, number + 1)
            count = 1 + self.random.below(2)
            await self._admin.create(topic, count, self._replication_factor, CONFIG)
            if topic not in self._passing:
                self._passing.append(topic)

    async def _delete(self) -> None:
        if self._passing:
            topic = self._passing.pop(self.random.below(len(self._passing)))
            await self._admin.delete(topic)

    async def _grow(self) -> None:
        known = self._admin.connections.topics.get("orders", {})
        if known and len(known) < MOST_PARTITIONS:
            await self._admin.grow("orders", len(known) + 1)

    async def _move(self) -> None:
        """Reassign a partition to two or three brokers; the first is the preferred leader.

        If topics have one replica, to one or two.
        """
        at = self._any()
        brokers = sorted(self._admin.connections.brokers)
        if at is not None and len(brokers) >= 2:
            start = self.random.below(len(brokers))
            count = max(1, self._replication_factor - 1) + self.random.below(2)
            turned = brokers[start:] + brokers[:start]
            await self._admin.reassign(at, tuple(turned[:count]))

    async def _cancel(self) -> None:
        if (at := self._any()) is not None:
            await self._admin.reassign(at, None)

    async def _elect(self) -> None:
        if (at := self._any()) is not None:
            await self._admin.elect(at)

    async def _trim(self) -> None:
        """Delete a few more records; rejected if the offset is above the high watermark."""
        before = self._trimmed + 1 + self.random.below(MOST_TRIMMED)
        trimmed = await self._admin.trim(TopicPartition(FADING, 0), before)
        if trimmed.outcome is OperationOutcome.OK:
            self._trimmed = before

    def _any(self) -> TopicPartition | None:
        known = partitions(self._admin.connections)
        return known[self.random.below(len(known))] if known else None
