"""Workloads of producers and consumers; each runs until it is stopped."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.retries import Address
from barnabas.sim.checkers.history import OperationHistory
from barnabas.sim.clients.client_connections import partitions
from barnabas.sim.clients.consumer_client import Consumer
from barnabas.sim.clients.producer_client import MOST_IN_FLIGHT, Producer

MOST_RECORDS: Final = 6
MOST_PAUSE_MS: Final = 1_200
_ONE_IN_REREADS: Final = 40


class Workload(ABC):
    """One client; its name is also the name of its host."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.random = random
        self._over = asyncio.Event()

    @abstractmethod
    async def run(self) -> None:
        """Work until `stop` is called and all started operations have ended."""

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def stop(self) -> None:
        self._over.set()

    async def rest(self, most_ms: int = MOST_PAUSE_MS) -> None:
        """Pause for a random time; half of the time for none."""
        idle_ms = max(0, self.random.below(2 * most_ms) - most_ms)
        with suppress(TimeoutError):
            async with asyncio.timeout(idle_ms / 1000):
                await self._over.wait()


class ProducingWorkload(Workload):
    """Sends one or several batches at a time to random partitions."""

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: OperationHistory,
        acks: int,
    ) -> None:
        super().__init__(name, random)
        self._producer = Producer(name, bootstrap, random, history, acks=acks)

    async def run(self) -> None:
        while not self.is_over:
            known = partitions(self._producer.connections)
            if known:
                await self._producer.send(known[self.random.below(len(known))], self._counts())
            if not known or not self.random.below(10):
                await self._producer.connections.refresh()
            await self.rest()
        self._producer.close()

    def _counts(self) -> list[int]:
        batches = 1 + self.random.below(MOST_IN_FLIGHT)
        return [1 + self.random.below(MOST_RECORDS) for _ in range(batches)]


class TailingWorkload(Workload):
    """Reads one partition as it grows, with requests that differ only in the offset."""

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: OperationHistory,
        at: TopicPartition,
    ) -> None:
        super().__init__(name, random)
        self._consumer = Consumer(name, bootstrap, random, history, by_name=True)
        self._consumer.assign({at: 0})

    async def run(self) -> None:
        while not self.is_over:
            await self._consumer.poll()
        self._consumer.close()


class ReadingWorkload(Workload):
    """Reads all partitions; sometimes from the start again."""

    def __init__(
        self, name: str, bootstrap: Sequence[Address], random: Random, history: OperationHistory
    ) -> None:
        super().__init__(name, random)
        self._consumer = Consumer(name, bootstrap, random, history)

    async def run(self) -> None:
        while not self.is_over:
            self._look_around()
            await self._consumer.poll()
            await self.rest()
        self._consumer.close()

    def _look_around(self) -> None:
        """Assign new partitions, too; at random, restart all from offset 0."""
        is_reread = not self.random.below(_ONE_IN_REREADS)
        before = {} if is_reread else self._consumer.positions
        known = partitions(self._consumer.connections)
        self._consumer.assign({at: before.get(at, 0) for at in known})
