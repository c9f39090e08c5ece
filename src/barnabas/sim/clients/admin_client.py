"""A simulated admin client: topics, partitions, reassignments, elections, DeleteRecords."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.metadata import fields
from barnabas.client.retries import Address
from barnabas.sim.checkers.history import (
    Asked,
    ClientOperation,
    Create,
    Delete,
    Elect,
    Grow,
    OperationHistory,
    OperationOutcome,
    Reassign,
    Trim,
)
from barnabas.sim.clients.client_connections import Connections
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import duration

TIMEOUT: Final = duration(3_000)
_E = ErrorCode
_PREFERRED: Final = 0
# Errors after which nothing happened and nothing will. NOT_CONTROLLER is not one: a controller
# may lose its office in the middle of an operation.
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
    """One admin client, which sends requests to the known controller; used by one task."""

    def __init__(
        self, name: str, bootstrap: Sequence[Address], random: Random, history: OperationHistory
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
    ) -> ClientOperation:
        wanted = fields(
            name=topic,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=tuple(fields(name=k, value=v) for k, v in (config or {}).items()),
        )
        asking = self._ask(ApiKey.CREATE_TOPICS, topics=(wanted,), timeout=TIMEOUT)
        asked = Create(topic, partitions, replication_factor)
        return await self._perform(asked, asking, lambda answer: answer.topics[0])

    async def delete(self, topic: str) -> ClientOperation:
        wanted = fields(name=topic, topic_id=None)
        asking = self._ask(ApiKey.DELETE_TOPICS, topics=(wanted,), timeout=TIMEOUT)
        return await self._perform(Delete(topic), asking, lambda answer: answer.responses[0])

    async def grow(self, topic: str, partitions: int) -> ClientOperation:
        wanted = fields(name=topic, count=partitions, assignments=None)
        asking = self._ask(ApiKey.CREATE_PARTITIONS, topics=(wanted,), timeout=TIMEOUT)
        return await self._perform(
            Grow(topic, partitions), asking, lambda answer: answer.results[0]
        )

    async def reassign(
        self, at: TopicPartition, replicas: tuple[int, ...] | None
    ) -> ClientOperation:
        wanted = fields(partition_index=at.partition, replicas=replicas)
        asking = self._ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            topics=(fields(name=at.topic, partitions=(wanted,)),),
            timeout=TIMEOUT,
        )

        def found(answer: Any) -> Any:
            return answer.responses[0].partitions[0] if answer.responses else answer

        return await self._perform(Reassign(at, replicas), asking, found)

    async def elect(self, at: TopicPartition) -> ClientOperation:
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

    async def trim(self, at: TopicPartition, before: int) -> ClientOperation:
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
    ) -> ClientOperation:
        """Send the request once; `found` returns the part of the response with the error."""
        operation = self._history.begin(self.connections.name, asked)
        try:
            error = found(await asking).error_code
        except PeerGone as gone:
            self._history.end(operation, OperationOutcome.UNKNOWN, why=str(gone))
            await self.connections.refresh()
            return operation
        if error in (_E.none, _E.election_not_needed):
            self._history.end(operation, OperationOutcome.OK)
        else:
            outcome = OperationOutcome.FAILED if error in _REFUSED else OperationOutcome.UNKNOWN
            self._history.end(operation, outcome, why=error.name)
            await self.connections.refresh()
        return operation
