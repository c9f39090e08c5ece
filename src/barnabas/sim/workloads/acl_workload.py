"""ACLs that change under load: a client reads and writes a topic while its rights come and go.

Its principal is that of all clients, so an ACL tells it from others by its host.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.fetch import BY_NAME, Fetch, read_fetch_response, write_fetch_request
from barnabas.client.metadata import fields
from barnabas.client.produce import Produce, read_produce_response, write_produce_request
from barnabas.client.retries import Address
from barnabas.client.versions import NEWEST
from barnabas.sim.checkers.acl_checker import RightsChecker
from barnabas.sim.clients.client_connections import REQUEST_S, Connections
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchTopic
from barnabas.wire.records.records import Record, build_batch
from barnabas.wire.schema import duration

# Other workloads leave topics alone that begin like Kafka's own.
GUARDED: Final = TopicPartition("__guarded", 0)
NAME: Final = "guarded-client"
_READ, _WRITE, _ALL = 3, 4, 2
_TOPIC, _LITERAL, _DENY, _ALLOW = 2, 3, 2, 3
_REFUSED: Final = ErrorCode.topic_authorization_failed
_PRODUCE_VERSION: Final = NEWEST[ApiKey.PRODUCE]
_REQUESTS_BETWEEN_CHANGES: Final = (30, 70)
_PAUSE_S: Final = 0.05


class AclWorkload:
    """One client on the host NAME; `run` ends with the simulation."""

    def __init__(
        self, bootstrap: Sequence[Address], random: Random, checker: RightsChecker
    ) -> None:
        self.connections = Connections(NAME, bootstrap, random)
        self._random = random
        self._checker = checker

    async def run(self) -> None:
        await self._until_done(self._create_topic)
        await self._until_done(lambda: self._change(ApiKey.CREATE_ACLS, "*", _ALL, _ALLOW))
        while True:
            for operation in (_READ, _WRITE):
                await self._use(operation)
                await self._until_done(
                    lambda it=operation: self._change(ApiKey.CREATE_ACLS, NAME, it, _DENY)
                )
                self._checker.on_revoked(_now())
                await self._use(operation)
                self._checker.on_grant()
                await self._give_back(operation)

    async def _use(self, operation: int) -> None:
        send = self._fetch if operation == _READ else self._produce
        least, most = _REQUESTS_BETWEEN_CHANGES
        for _ in range(least + self._random.below(most - least)):
            await asyncio.sleep(_PAUSE_S)
            began = _now()
            try:
                error = await send()
            except PeerGone:
                await self.connections.refresh()
                continue
            if error is ErrorCode.none:
                self._checker.on_served("Fetch" if operation == _READ else "Produce", began)
            elif error is _REFUSED:
                self._checker.on_refused()
            else:
                await self.connections.refresh()

    async def _until_done(self, attempt: Any) -> None:
        while not await _is_done(attempt()):
            await self.connections.back_off()
            await self.connections.refresh()

    async def _give_back(self, operation: int) -> None:
        """A grant without an answer may still be under way: it must not undo what comes next."""
        while not await _is_done(self._change(ApiKey.DELETE_ACLS, NAME, operation, _DENY)):
            await asyncio.sleep(2 * REQUEST_S)
            await self.connections.refresh()

    # -- requests ------------------------------------------------------------

    async def _create_topic(self) -> ErrorCode:
        await self.connections.refresh()
        wanted = fields(name=GUARDED.topic, num_partitions=1, replication_factor=3)
        answer = await self.connections.ask(
            self.connections.controller,
            ApiKey.CREATE_TOPICS,
            topics=(wanted,),
            timeout=duration(3_000),
        )
        code: ErrorCode = answer.topics[0].error_code
        return ErrorCode.none if code is ErrorCode.topic_already_exists else code

    async def _change(self, key: ApiKey, host: str, operation: int, permission: int) -> ErrorCode:
        principal = "User:*" if host == "*" else "User:ANONYMOUS"
        entry = {"host": host, "operation": operation, "permission_type": permission}
        if key is ApiKey.CREATE_ACLS:
            wanted = fields(
                resource_type=_TOPIC,
                resource_name=GUARDED.topic,
                resource_pattern_type=_LITERAL,
                principal=principal,
                **entry,
            )
            answer = await self.connections.ask_any(key, creations=(wanted,))
            created: ErrorCode = answer.results[0].error_code
            return created
        wanted = fields(
            resource_type_filter=_TOPIC,
            resource_name_filter=GUARDED.topic,
            pattern_type_filter=_LITERAL,
            principal_filter=principal,
            host_filter=host,
            operation=operation,
            permission_type=permission,
        )
        answer = await self.connections.ask_any(key, filters=(wanted,))
        deleted: ErrorCode = answer.filter_results[0].error_code
        return deleted

    async def _fetch(self) -> ErrorCode:
        leader = await self._leader()
        asked = FetchPartition(GUARDED.partition, 0, 1024, leader.epoch)
        request = Fetch(0, 0, 1024, [FetchTopic(GUARDED.topic, leader.topic_id, [asked])])
        connection = await self.connections.to(leader.broker)
        answer = await connection.exchange(
            lambda number: write_fetch_request(BY_NAME, number, NAME, request), REQUEST_S
        )
        return read_fetch_response(BY_NAME, answer).partitions[0].error

    async def _produce(self) -> ErrorCode:
        leader = await self._leader()
        batch = build_batch([Record(0, 0, None, b"x")])
        request = Produce(GUARDED.topic, GUARDED.partition, batch, 1, 3_000)
        connection = await self.connections.to(leader.broker)
        answer = await connection.exchange(
            lambda number: write_produce_request(_PRODUCE_VERSION, number, NAME, request),
            REQUEST_S,
        )
        return read_produce_response(_PRODUCE_VERSION, answer).error

    async def _leader(self) -> Any:
        if (leader := self.connections.leader(GUARDED)) is None:
            await self.connections.refresh()
            if (leader := self.connections.leader(GUARDED)) is None:
                raise PeerGone("nobody is known to lead the topic")
        return leader


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _is_done(asking: Coroutine[Any, Any, ErrorCode]) -> bool:
    try:
        return await asking is ErrorCode.none
    except PeerGone:
        return False
