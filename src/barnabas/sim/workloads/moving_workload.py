"""The moves of partitions of transactions, and of the topics of coordinators, between brokers."""

from collections.abc import Sequence
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.retries import Address
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC
from barnabas.server.transactions.transaction_topic import TRANSACTION_TOPIC
from barnabas.sim.checkers.history import TRANSACTIONAL, OperationHistory
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.workloads.workloads import Workload

MOVED: Final = (*TRANSACTIONAL, TRANSACTION_TOPIC, OFFSETS_TOPIC)
MOST_PAUSE_MS: Final = 4_000
_ONE_IN_DOUBLES: Final = 4


class MovingWorkload(Workload):
    """Moves a partition to another broker every few seconds, at times to two, one of them new.

    So its leader, or its coordinator, changes amid transactions; and a sole replica gets another
    one beside it for a while: what is decided meanwhile has to wait for both.
    """

    def __init__(
        self, name: str, bootstrap: Sequence[Address], random: Random, history: OperationHistory
    ) -> None:
        super().__init__(name, random)
        self._admin = Admin(name, bootstrap, random, history)

    async def run(self) -> None:
        while not self.is_over:
            await self.rest(MOST_PAUSE_MS)
            if not self.is_over and await self._admin.connections.refresh():
                await self._move()
        self._admin.close()

    async def _move(self) -> None:
        known = self._admin.connections.topics
        partitions = [
            TopicPartition(topic, each)
            for topic in MOVED
            if topic in known
            for each in sorted(known[topic])
        ]
        brokers = sorted(self._admin.connections.brokers)
        if not partitions or len(brokers) < 2:
            return
        start = self.random.below(len(brokers))
        count = 1 if self.random.below(_ONE_IN_DOUBLES) else 2
        at = partitions[self.random.below(len(partitions))]
        await self._admin.reassign(at, tuple((brokers[start:] + brokers[:start])[:count]))
