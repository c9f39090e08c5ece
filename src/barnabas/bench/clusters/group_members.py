"""Members of a classic group that only take part, each on its own connection."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Final, Self

from barnabas.base.errors import ErrorCode
from barnabas.bench.limits.load_messages import CLIENT_ID
from barnabas.client.connection import AsyncConnection
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import Message, duration

PATIENCE_S: Final = 60.0
RETRY_S: Final = 0.01
SESSION_MS: Final = 30_000
PROTOCOL: Final = "range"
NOT_YET: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


class GroupFailed(Exception):
    """The coordinator refused something or gave a wrong answer; the message says what."""


async def connected(port: int, host: str = "127.0.0.1") -> AsyncConnection:
    return await AsyncConnection.connect(
        host, port, client_id=CLIENT_ID.decode(), timeout_s=PATIENCE_S
    )


async def ask(peer: AsyncConnection, key: ApiKey, **fields: object) -> Message:
    return await peer.request(key, APIS[key].highest, SimpleNamespace(**fields), PATIENCE_S)


def demand(code: ErrorCode, what: str) -> None:
    """Raises GroupFailed if it is an error."""
    if code is not ErrorCode.none:
        raise GroupFailed(f"{what}: {code.name}")


class BenchMember:
    """One member; its metadata differs from round to round, which asks for a rebalance."""

    def __init__(
        self, peer: AsyncConnection, group: str, protocols: Sequence[str] = (PROTOCOL,)
    ) -> None:
        self.peer = peer
        self.group = group
        self.protocols = protocols
        self.member_id = ""
        self.generation = -1

    @classmethod
    async def new(cls, port: int, group: str) -> Self:
        """A member that has its id, and has not joined yet."""
        member = cls(await connected(port), group)
        await member.introduce()
        return member

    async def introduce(self) -> None:
        """Get an id from the coordinator."""
        joined = await self._join(b"")
        if joined.error_code is not ErrorCode.member_id_required:
            raise GroupFailed(f"JoinGroup without an id: {joined.error_code.name}")
        self.member_id = joined.member_id

    async def take_part(self, metadata: bytes) -> None:
        """Join and get an assignment; the leader assigns each member its own id."""
        joined = await self._join(metadata)
        demand(joined.error_code, "JoinGroup")
        self.generation = joined.generation_id
        members = [each.member_id for each in joined.members]  # only the leader gets them
        assignment = await self._sync(joined.protocol_name, members)
        if assignment != self.member_id.encode():
            raise GroupFailed(f"{self.member_id} was assigned {assignment!r}")

    async def heartbeat(self) -> None:
        answer = await ask(self.peer, ApiKey.HEARTBEAT, **self.identity)
        demand(answer.error_code, "Heartbeat")

    async def leave(self) -> None:
        leaving = SimpleNamespace(member_id=self.member_id)
        answer = await ask(self.peer, ApiKey.LEAVE_GROUP, group_id=self.group, members=(leaving,))
        demand(answer.error_code, "LeaveGroup")

    @property
    def identity(self) -> dict[str, object]:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
        }

    async def _join(self, metadata: bytes) -> Message:
        while True:
            joined = await ask(
                self.peer,
                ApiKey.JOIN_GROUP,
                group_id=self.group,
                session_timeout=duration(SESSION_MS),
                rebalance_timeout=duration(SESSION_MS),
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=tuple(
                    SimpleNamespace(name=name, metadata=metadata) for name in self.protocols
                ),
            )
            if joined.error_code not in NOT_YET:
                return joined
            await asyncio.sleep(RETRY_S)

    async def _sync(self, protocol: str, members: Sequence[str]) -> bytes:
        answer = await ask(
            self.peer,
            ApiKey.SYNC_GROUP,
            **self.identity,
            protocol_type="consumer",
            protocol_name=protocol,
            assignments=tuple(
                SimpleNamespace(member_id=each, assignment=each.encode()) for each in members
            ),
        )
        demand(answer.error_code, "SyncGroup")
        assignment: bytes = answer.assignment
        return assignment


async def until_coordinated(port: int, group: str) -> None:
    """Have the broker make the topic of offsets, and wait until it coordinates the group."""
    peer = await connected(port)
    try:
        while True:
            answer = await ask(peer, ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=(group,))
            code = answer.coordinators[0].error_code
            if code not in NOT_YET:
                return demand(code, "FindCoordinator")
            await asyncio.sleep(RETRY_S)
    finally:
        peer.close()
