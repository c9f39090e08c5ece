"""A member of a group at work: reads what it is given, tells how far it is, and goes at times."""

from collections.abc import Sequence
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.sim.clients import Address
from barnabas.sim.clients_consumer import Consumer
from barnabas.sim.clients_group import Member, MustJoin
from barnabas.sim.history import History
from barnabas.sim.workloads import Workload

MOST_PAUSE_MS: Final = 500
_ONE_IN_COMMITS: Final = 2
_ONE_IN_LEAVES: Final = 60
_ONE_IN_VANISHES: Final = 60


class Belonging(Workload):
    """Joins, reads, commits; leaves or vanishes now and then, and comes back as someone else."""

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: History,
        group: str,
    ) -> None:
        super().__init__(name, random)
        self._member = Member(name, group, bootstrap, random, history)
        self._consumer = Consumer(name, bootstrap, random, history, group)
        self._committed: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        while not self.is_over:
            try:
                await self._begin()
                while not self.is_over and self._member.owned:
                    await self._go_on()
            except MustJoin:
                await self._member.connections.back_off()
            await self.rest()
        await self._member.leave()
        self._member.close()
        self._consumer.close()

    async def _begin(self) -> None:
        await self._member.join()
        recalled = await self._member.recall()
        self._committed = {at: max(0, offset) for at, offset in recalled.items()}
        self._consumer.assign(self._committed)

    async def _go_on(self) -> None:
        if self._consumer.positions:
            await self._consumer.poll()
        await self._member.heartbeat()
        positions = self._consumer.positions
        moved = {at: n for at, n in positions.items() if n > self._committed[at]}
        if moved and not self.random.below(_ONE_IN_COMMITS):
            await self._member.commit(moved)
            self._committed.update(moved)
        await self.rest(MOST_PAUSE_MS)
        if not self.random.below(_ONE_IN_LEAVES):
            await self._member.leave()
        elif not self.random.below(_ONE_IN_VANISHES):
            self._member.forget()
