"""A simulated member of a consumer group (KIP-848): heartbeats with owned partitions."""

import uuid
from typing import Any, Final

from barnabas.base.ids import TopicPartition
from barnabas.client.metadata import fields
from barnabas.sim.checkers.history import Hold, OperationOutcome, Owned
from barnabas.sim.clients.client_connections import topics
from barnabas.sim.clients.group_membership import Membership, MustJoin
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import duration

REBALANCE_MS: Final = 3_000
_JOINING: Final = 0
_LEAVING: Final = -1


class SimConsumerMember(Membership):
    """A member whose assignment changes incrementally, without generations.

    It revokes partitions at once, and acknowledges that with its next heartbeat.
    """

    _joined = 0
    _topic_ids: dict[TopicPartition, uuid.UUID]

    async def join(self) -> Owned:
        """Join as a new member and get its first assignment. Raises MustJoin"""
        self.forget()
        if not await self.connections.refresh() or not topics(self.connections):
            raise MustJoin("the topics are not known")
        self._joined += 1
        self._member_id = f"{self.connections.name}-{self._joined}"
        self._topic_ids = {}
        self.owned = Owned(self._member_id, _JOINING, ())
        await self.heartbeat()
        return self._owned()

    async def heartbeat(self) -> None:
        """Send a heartbeat; without an answer nothing changes. Raises MustJoin"""
        owned = self._owned()
        topic_ids = tuple(self._topic_ids[at] for at in owned.partitions)
        asked = Hold(self.group, owned.member, owned.generation, owned.partitions, topic_ids)
        operation = self._history.begin(self.connections.name, asked)
        try:
            answer = await self._beat(
                owned.generation,
                rebalance_timeout=duration(REBALANCE_MS),
                subscribed_topic_names=tuple(topics(self.connections)),
                topic_partitions=self._by_id(owned),
            )
            self._check(answer.error_code)
        except MustJoin as must:
            self._history.end(operation, OperationOutcome.UNKNOWN, why=str(must))
            if not self._member_id:
                raise
            self.owned = owned
            return
        partitions = await self._assigned(answer.assignment, owned)
        self.owned = Owned(owned.member, answer.member_epoch, partitions)
        self._history.end(operation, OperationOutcome.OK, self.owned)

    async def leave(self) -> None:
        """Leave the group; if the request is lost, the member's session times out."""
        try:
            if self._member_id:
                await self._beat(_LEAVING, topic_partitions=None)
        except MustJoin:
            return
        finally:
            self.forget()

    async def _beat(self, epoch: int, **given: object) -> Any:
        return await self._ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            group_id=self.group,
            member_id=self._member_id,
            member_epoch=epoch,
            **given,
        )

    def _by_id(self, owned: Owned) -> tuple[Any, ...]:
        found: dict[uuid.UUID, list[int]] = {}
        for at in owned.partitions:
            found.setdefault(self._topic_ids[at], []).append(at.partition)
        return tuple(
            fields(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in found.items()
        )

    async def _assigned(self, assignment: Any, owned: Owned) -> tuple[TopicPartition, ...]:
        """The assigned partitions whose topic names are known; others follow later."""
        if assignment is None:
            return owned.partitions
        if any(each.topic_id not in self.connections.names for each in assignment.topic_partitions):
            await self.connections.refresh()
        names = self.connections.names
        self._topic_ids = {
            TopicPartition(names[each.topic_id], partition): each.topic_id
            for each in assignment.topic_partitions
            if each.topic_id in names
            for partition in each.partitions
        }
        return tuple(self._topic_ids)
