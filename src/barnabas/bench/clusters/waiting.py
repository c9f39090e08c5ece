"""Waiting for a cluster's own actions: elections, acknowledged writes, replicas in sync."""

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable
from typing import Final

from barnabas.base.errors import PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.bench.clusters.bench_cluster import BenchCluster, state_of
from barnabas.bench.limits.load_messages import (
    CLIENT_ID,
    CORRELATION_AT,
    batch_of,
    numbered,
    produce,
)
from barnabas.client.connection import AsyncConnection
from barnabas.znodes.tree import Coordination

LOOKS_EVERY_S: Final = 0.002
PATIENCE_S: Final = 60.0
ANSWERED_WITHIN_S: Final = 1.0
PROBE: Final = batch_of(200)


class WaitTimedOut(Exception):
    """A condition did not hold in time; the message names it."""


async def until(
    happened: Callable[[], Awaitable[bool]],
    what: str,
    every_s: float = LOOKS_EVERY_S,
    patience_s: float = PATIENCE_S,
) -> float:
    """The time when the condition held. Raises WaitTimedOut, by default after a minute."""
    deadline = time.perf_counter() + patience_s
    while not await happened():
        if time.perf_counter() > deadline:
            raise WaitTimedOut(f"{what}: not within {patience_s:g} s")
        await asyncio.sleep(every_s)
    return time.perf_counter()


async def acknowledges(port: int, topic: str, partition: int = 0) -> bool:
    """True if this broker soon acknowledges a record with acks=all."""
    exchange = produce(PROBE, topic, acks=-1)
    try:
        peer = await AsyncConnection.connect(
            "127.0.0.1", port, client_id=CLIENT_ID.decode(), timeout_s=ANSWERED_WITHIN_S
        )
    except PeerGone:
        return False
    try:
        request = numbered(exchange.request_for(partition))
        answer = await peer.exchange(request, ANSWERED_WITHIN_S)
    except PeerGone:
        return False
    finally:
        peer.close()
    (error,) = struct.unpack_from(">h", answer, exchange.error_at - CORRELATION_AT)
    return bool(error == 0)


async def until_led(
    cluster: BenchCluster, tree: Coordination, partition: TopicPartition, not_by: int = -1
) -> float:
    """Wait until a broker other than `not_by` acknowledges writes to the partition."""

    async def is_led() -> bool:
        leader = (await state_of(tree, partition)).leader
        if leader in (-1, not_by):
            return False
        return await acknowledges(
            cluster.members[leader].port, partition.topic, partition.partition
        )

    return await until(is_led, f"a leader of {partition}")
