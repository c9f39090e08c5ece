"""The fetch loop of a follower: one connection to one leader, one fetch after the other.

    truncate   partitions without epochs, to their high watermark; all others as responses say
    fetch      all partitions that do not wait, in a session: a request names only those due
    apply      each partition's response on its own

Partitions may be followed and stopped at any time. A response counts only for a partition that is
followed as it was when the fetch was sent, and whose log still ends there.
"""

import asyncio
import logging
import math
from contextlib import suppress
from typing import Final

from barnabas.base.errors import ErrorCode, LawBroken, PeerGone
from barnabas.base.ids import BrokerId
from barnabas.client.connection import AsyncConnection
from barnabas.client.fetch import (
    BY_NAME,
    NEWEST,
    Fetch,
    FetchResponse,
    read_fetch_response,
    write_fetch_request,
)
from barnabas.client.frames import MalformedResponse
from barnabas.replication.follower.fetch_response import FetchResponses
from barnabas.replication.follower.fetch_state import FIRST_BACKOFF_S, Changes, Followings
from barnabas.replication.follower.fetcher_ports import FetcherPorts, FetcherSettings
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.follower.follower_session import FollowerSession, forgotten_of, topics_of

log = logging.getLogger("barnabas.fetcher")

# A fetch that still waits this long after a partition was added ends early for it.
PATIENCE_S: Final = 0.02

SESSION_ERRORS: Final = (
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
)


class FetchLoop:
    """One connection's partitions. `run` ends by itself once nothing is left to follow."""

    def __init__(
        self,
        ports: FetcherPorts,
        leader: BrokerId,
        fetcher: int,
        by_name: bool,
        host: str,
        port: int,
    ) -> None:
        self.leader = leader
        self.fetcher = fetcher
        self.by_name = by_name
        self.address = (host, port)
        self.followings = Followings(ports.throttle, by_epoch=ports.safeguards.epoch_truncation)
        self.is_over = False  # true once it accepts no more partitions
        self._ports = ports
        self._taking = FetchResponses(ports, self.followings)
        self._session = FollowerSession()
        self._peer: AsyncConnection | None = None
        self._is_in_flight = False  # a request is sent that may wait, its response not here yet
        self._is_dropped = False
        self._is_reached = True  # unknown at first, so the first failure is logged
        self._woken = asyncio.Event()
        self._hurry: asyncio.TimerHandle | None = None

    def follow(self, follower: FollowerReplica, host: str, port: int) -> None:
        """Copy this partition, too, from where the leader listens now."""
        if (host, port) != self.address:
            self.address = (host, port)
            self._drop_peer()
        if self.followings.add(follower):
            self._woken.set()
            if self._is_in_flight and self._hurry is None:
                loop = asyncio.get_running_loop()
                self._hurry = loop.call_later(PATIENCE_S, self._cut_short)

    def _cut_short(self) -> None:
        """End a long fetch early: the leader may delay it, and new partitions must not wait.

        Producers wait until a new leader's followers have fetched for the first time.
        """
        self._hurry = None
        if self._is_in_flight and self.followings.is_any_new:
            self._drop_peer()

    def _drop_peer(self) -> None:
        if self._peer is not None:
            self._is_dropped = True
            self._peer.close()

    # The loop

    async def run(self, *, after_failure: bool = False) -> None:
        """Copy until nothing is left to copy; DiskFaults and broken laws go to their owner."""
        try:
            if after_failure:
                await self._rest(self._ports.config.fetcher().backoff_s)
            while await self._has_work():
                try:
                    await self._round()
                except PeerGone as gone:
                    await self._on_gone(gone)
            self.is_over = True
        except LawBroken as broken:
            self.is_over = True
            self._ports.failures.fatal(broken)
        finally:
            if self._hurry is not None:
                self._hurry.cancel()
            if self._peer is not None:
                self._peer.close()

    async def _has_work(self) -> bool:
        if not self.followings:
            self._woken.clear()
            await self._rest(self._ports.config.fetcher().backoff_s)
        return len(self.followings) > 0

    async def _round(self) -> None:
        settings = self._ports.config.fetcher()
        await self._taking.cut_first()
        if self._peer is None or self._peer.closed:
            await self._connect(settings)
            await self._taking.cut_first()  # those that were added meanwhile
        now = asyncio.get_running_loop().time()
        self._woken.clear()
        changes = self.followings.next_changes(now, settings, self._session)
        wait_s = changes.wait_s
        if not changes.is_any_asked:
            await self._rest(settings.backoff_s if wait_s is None else wait_s)
            return
        # No records may come for the partitions of this fetch: the others must not wait.
        wait_max_ms = 0 if changes.has_more else settings.wait_max_ms
        if wait_s is not None:
            wait_max_ms = min(wait_max_ms, math.ceil(1000 * max(wait_s, FIRST_BACKOFF_S)))
        answer = await self._ask(changes, settings._replace(wait_max_ms=wait_max_ms))
        self._on_reached()
        if self._session.on_answer(answer.error, answer.session_id):
            await self._taking.take(answer.partitions, self._connected())
        elif answer.error not in SESSION_ERRORS:
            log.warning("fetch refused leader=%d why=%s", self.leader, answer.error.name)
            await self._rest(settings.backoff_s)

    async def _ask(self, changes: Changes, settings: FetcherSettings) -> FetchResponse:
        peer = self._connected()
        version = BY_NAME if self.by_name else NEWEST
        fetch = Fetch(
            settings.wait_max_ms,
            settings.min_bytes,
            settings.response_max_bytes,
            topics_of(changes.named),
            forgotten_of(changes.forgotten),
            self._session.session_id,
            self._session.epoch,
            replica_id=self._ports.broker_id,
            replica_epoch=self._ports.registration.epoch,
        )
        self._ports.statistics.fetches += 1
        self._is_in_flight = settings.wait_max_ms > 0
        try:
            body = await peer.exchange(
                lambda number: write_fetch_request(version, number, peer.client_id, fetch),
                settings.timeout_s,
            )
            return read_fetch_response(version, body)
        except MalformedResponse as malformed:
            peer.close()
            raise PeerGone(
                f"{peer.name} sent a response that cannot be read: {malformed}"
            ) from malformed
        finally:
            self._is_in_flight = False

    def _connected(self) -> AsyncConnection:
        assert self._peer is not None
        return self._peer

    # The connection

    async def _connect(self, settings: FetcherSettings) -> None:
        address = self.address
        client_id = f"broker-{self._ports.broker_id}-fetcher-{self.fetcher}"
        self._session.on_lost()
        peer = await self._ports.connect(*address, client_id, settings.timeout_s)
        self._peer, self._is_dropped = peer, False
        if address != self.address:
            self._drop_peer()
            raise PeerGone(f"{peer.name} is no longer the leader's address")

    def _on_reached(self) -> None:
        # A connection alone proves nothing: a proxy may accept it for a dead broker.
        if not self._is_reached:
            log.info("leader reachable again leader=%d address=%s:%d", self.leader, *self.address)
        self._is_reached = True

    async def _on_gone(self, gone: PeerGone) -> None:
        if self._is_dropped:
            self._is_dropped = False
            return
        self._ports.statistics.connections_lost += 1
        if self._is_reached:
            log.warning("leader unreachable leader=%d why=%s", self.leader, gone)
        self._is_reached = False
        self._woken.clear()
        await self._rest(self._ports.config.fetcher().backoff_s)

    async def _rest(self, seconds: float) -> None:
        """Wait, but no longer than until something new is to be followed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
