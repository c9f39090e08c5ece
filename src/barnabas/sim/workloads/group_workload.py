"""The workload of a group member: joins, reads, commits, leaves or vanishes."""

from collections.abc import Sequence
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.retries import Address
from barnabas.sim.checkers.history import OperationHistory
from barnabas.sim.clients.classic_group_member import SimClassicMember
from barnabas.sim.clients.consumer_client import Consumer
from barnabas.sim.clients.consumer_group_member import SimConsumerMember
from barnabas.sim.clients.group_membership import MustJoin
from barnabas.sim.workloads.workloads import Workload

MOST_PAUSE_MS: Final = 500
_ONE_IN_COMMITS: Final = 2
_ONE_IN_LEAVES: Final = 60
_ONE_IN_VANISHES: Final = 60


class GroupWorkload(Workload):
    """Joins, reads and commits; sometimes leaves or vanishes, and rejoins as a new member."""

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: OperationHistory,
        group: str,
        member: type[SimClassicMember] | type[SimConsumerMember] = SimClassicMember,
    ) -> None:
        super().__init__(name, random)
        self._member = member(name, group, bootstrap, random, history)
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
        self._committed = {}
        self._consumer.assign({})
        await self._member.join()
        await self._take_over()

    async def _take_over(self) -> None:
        """Read exactly the owned partitions; new ones from their committed offsets."""
        owned = self._member.owned.partitions if self._member.owned else ()
        new = tuple(at for at in owned if at not in self._committed)
        recalled = await self._member.recall(new) if new else {}
        if new or len(owned) < len(self._committed):
            known = {**self._committed, **{at: max(0, n) for at, n in recalled.items()}}
            self._committed = {at: known[at] for at in owned}
            positions = self._consumer.positions
            self._consumer.assign({at: positions.get(at, known[at]) for at in owned})

    async def _go_on(self) -> None:
        if self._consumer.positions:
            await self._consumer.poll()
        await self._member.heartbeat()
        await self._take_over()
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
