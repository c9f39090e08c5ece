"""An administrator: makes, deletes, grows, moves and trims topics; writes down what came of it."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.metadata import fields
from barnabas.client.retries import Address
from barnabas.sim.checkers.history import (
    Asked,
    Create,
    Delete,
    Elect,
    Grow,
    History,
    Operation,
    Outcome,
    Reassign,
    Trim,
)
from barnabas.sim.clients.client_connections import Connections
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import duration

TIMEOUT: Final = duration(3_000)
_E = ErrorCode
_PREFERRED: Final = 0
# With these the cluster says that it has done nothing, and will not. A controller that is none
# any more may say so in the middle of what was asked.
_REFUSED: Final = (
    _E.topic_already_exists,
    _E.unknown_topic_or_partition,
    _E.invalid_partitions,
    _E.invalid_replication_factor,
    _E.invalid_replica_assignment,
    _E.invalid_request,
    _E.no_reassignment_in_progress,
    _E.offset_out_of_range,
    _E.preferred_leader_not_available,
    _E.reassignment_in_progress,
)


class Admin:
    """One administrator, who asks whoever was said to be controller; one task uses it."""

    def __init__(
        self, name: str, bootstrap: Sequence[Address], random: Random, history: History
    ) -> None:
        self.connections = Connections(name, bootstrap, random)
        self._history = history

    def close(self) -> None:
        self.connections.close()

    async def create(
        self,
        topic: str,
        partitions: int,
        replication_factor: int,
        config: Mapping[str, str] | None = None,
    ) -> Operation:
        wanted = fields(
            name=topic,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=tuple(fields(name=k, value=v) for k, v in (config or {}).items()),
        )
        asking = self._ask(ApiKey.CREATE_TOPICS, topics=(wanted,), timeout=TIMEOUT)
        asked = Create(topic, partitions, replication_factor)
        return await self._perform(asked, asking, lambda answer: answer.topics[0])

    async def delete(self, topic: str) -> Operation:
        wanted = fields(name=topic, topic_id=None)
        asking = self._ask(ApiKey.DELETE_TOPICS, topics=(wanted,), timeout=TIMEOUT)
        return await self._perform(Delete(topic), asking, lambda answer: answer.responses[0])

    async def grow(self, topic: str, partitions: int) -> Operation:
        wanted = fields(name=topic, count=partitions, assignments=None)
        asking = self._ask(ApiKey.CREATE_PARTITIONS, topics=(wanted,), timeout=TIMEOUT)
        return await self._perform(
            Grow(topic, partitions), asking, lambda answer: answer.results[0]
        )

    async def reassign(self, at: TopicPartition, replicas: tuple[int, ...] | None) -> Operation:
        wanted = fields(partition_index=at.partition, replicas=replicas)
        asking = self._ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            topics=(fields(name=at.topic, partitions=(wanted,)),),
            timeout=TIMEOUT,
        )

        def found(answer: Any) -> Any:
            return answer.responses[0].partitions[0] if answer.responses else answer

        return await self._perform(Reassign(at, replicas), asking, found)

    async def elect(self, at: TopicPartition) -> Operation:
        wanted = fields(topic=at.topic, partitions=(at.partition,))
        asking = self._ask(
            ApiKey.ELECT_LEADERS,
            election_type=_PREFERRED,
            topic_partitions=(wanted,),
            timeout=TIMEOUT,
        )

        def found(answer: Any) -> Any:
            results = answer.replica_election_results
            return results[0].partition_result[0] if results else answer

        return await self._perform(Elect(at), asking, found)

    async def trim(self, at: TopicPartition, before: int) -> Operation:
        wanted = fields(partition_index=at.partition, offset=before)
        asking = self._ask_leader(
            at,
            ApiKey.DELETE_RECORDS,
            topics=(fields(name=at.topic, partitions=(wanted,)),),
            timeout=TIMEOUT,
        )
        return await self._perform(
            Trim(at, before), asking, lambda answer: answer.topics[0].partitions[0]
        )

    async def _ask_leader(self, at: TopicPartition, key: ApiKey, **given: object) -> Any:
        if (leader := self.connections.leader(at)) is None:
            raise PeerGone(f"nobody is known to lead {at}")
        return await self.connections.ask(leader.broker, key, **given)

    async def _ask(self, key: ApiKey, **given: object) -> Any:
        connections = self.connections
        if connections.controller not in connections.brokers:
            await connections.refresh()
        return await connections.ask(connections.controller, key, **given)

    async def _perform(
        self, asked: Asked, asking: Coroutine[Any, Any, Any], found: Callable[[Any], Any]
    ) -> Operation:
        """Ask once; `found` is the part of the answer that has the error."""
        operation = self._history.begin(self.connections.name, asked)
        try:
            error = found(await asking).error_code
        except PeerGone as gone:
            self._history.end(operation, Outcome.UNKNOWN, why=str(gone))
            await self.connections.refresh()
            return operation
        if error in (_E.none, _E.election_not_needed):
            self._history.end(operation, Outcome.OK)
        else:
            outcome = Outcome.FAILED if error in _REFUSED else Outcome.UNKNOWN
            self._history.end(operation, outcome, why=error.name)
            await self.connections.refresh()
        return operation
