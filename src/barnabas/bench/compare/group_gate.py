"""A gate for a classic group, so that clients of any kind start to read at the same time.

A member of the bench joins the group first. The coordinator then holds all other JoinGroup
requests until that member rejoins or leaves; it leaves when all others wait. Without it the first
client would read alone until its next heartbeat, by default three seconds, and be done by then.
"""

import asyncio
import struct
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Final

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.bench.clusters.group_members import (
    NOT_YET,
    PATIENCE_S,
    RETRY_S,
    BenchMember,
    GroupFailed,
    ask,
    connected,
    demand,
)
from barnabas.client.connection import AsyncConnection
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import Message

JOINED_WITHIN_S: Final = 25.0  # less than the session of the gate's member, who sends no heartbeat
# Every assignor that a client offers by default: a member has to share one with the others.
ASSIGNORS: Final = ("range", "roundrobin", "cooperative-sticky", "sticky", "RoundRobinAssigner")
_SUBSCRIPTION: Final = struct.pack(">hii", 0, 0, -1)  # version 0, no topics, no user data


def begin_together(bootstrap: str, group: str, clients: int, start: Callable[[], None]) -> None:
    """Start clients, wait until this many have joined the group, and admit them all at once.

    Raises GroupFailed if some do not join.
    """
    asyncio.run(_begin_together(bootstrap, group, clients, start))


def has_consumer_groups(bootstrap: str) -> bool:
    """True if the cluster has KIP-848 groups, which Kafka lacks in ZooKeeper mode."""
    return asyncio.run(_has_consumer_groups(bootstrap))


async def _begin_together(
    bootstrap: str, group: str, clients: int, start: Callable[[], None]
) -> None:
    peer = await _coordinator(bootstrap, group)
    try:
        gate = BenchMember(peer, group, ASSIGNORS)
        await gate.introduce()
        await gate.take_part(_SUBSCRIPTION)
        start()
        deadline = time.perf_counter() + JOINED_WITHIN_S
        while (joined := await _members(peer, group)) <= clients:
            if time.perf_counter() > deadline:
                raise GroupFailed(f"{joined - 1} of {clients} clients joined the group")
            await asyncio.sleep(RETRY_S)
        await gate.leave()
    finally:
        peer.close()


async def _members(peer: AsyncConnection, group: str) -> int:
    answer = await ask(peer, ApiKey.DESCRIBE_GROUPS, groups=(group,))
    demand(answer.groups[0].error_code, "DescribeGroups")
    return len(answer.groups[0].members)


async def _coordinator(bootstrap: str, group: str) -> AsyncConnection:
    """A connection to the group's coordinator."""
    peer = await _any_broker(bootstrap)
    try:
        place = await _place(peer, group)
    finally:
        peer.close()
    return await connected(place.port, place.host)


async def _place(peer: AsyncConnection, group: str) -> Message:
    while True:
        answer = await ask(peer, ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=(group,))
        place = answer.coordinators[0]
        if place.error_code is ErrorCode.none:
            return place
        if place.error_code not in NOT_YET:
            demand(place.error_code, "FindCoordinator")
        await asyncio.sleep(RETRY_S)


async def _has_consumer_groups(bootstrap: str) -> bool:
    # Kafka lists the API in ZooKeeper mode, too, and refuses it when it is used.
    peer = await _any_broker(bootstrap)
    asked = SimpleNamespace(group_id="no-such-group", member_id="nobody", member_epoch=1)
    try:
        answer = await peer.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, asked, PATIENCE_S)
    except PeerGone:
        return False
    finally:
        peer.close()
    return answer.error_code is not ErrorCode.unsupported_version


async def _any_broker(bootstrap: str) -> AsyncConnection:
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    return await connected(int(port), host)
