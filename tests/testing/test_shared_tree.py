"""Tree sessions across threads: the contract, and the effects of a cut, a pause and a kill."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from barnabas.testing.shared_tree import CUT, PAUSED, BridgedSession, SharedTree
from barnabas.znodes.tree import (
    ConnectionLoss,
    Coordination,
    EventKind,
    SessionExpired,
    SessionState,
    WatchEvent,
)
from tests.znodes.contract import CoordinationContract, Heard, OpenTree
from tests.znodes.contract_sessions import SessionContract

ONE, OTHER = 1, 2
LONG_S, SHORT_S = 60.0, 0.05


class SharedTreeUnderTest:
    def __init__(self, tree: SharedTree) -> None:
        self._tree = tree
        self._sessions: list[Coordination] = []

    async def session(self) -> Coordination:
        self._sessions.append(self._tree.session(len(self._sessions)))
        return self._sessions[-1]

    async def expire(self, session: Coordination) -> None:
        heard = Heard[SessionState]()
        session.listen(heard)
        self._tree.expire(self._sessions.index(session))
        await heard.until(SessionState.EXPIRED)


@asynccontextmanager
async def opened() -> AsyncIterator[SharedTreeUnderTest]:
    tree = SharedTree(None, LONG_S)
    try:
        yield SharedTreeUnderTest(tree)
    finally:
        tree.close()


class TestAcrossThreads(CoordinationContract, SessionContract):
    @pytest.fixture
    def tree(self) -> OpenTree:
        return opened


@asynccontextmanager
async def two_sessions(
    timeout_s: float,
) -> AsyncIterator[tuple[SharedTree, BridgedSession, Coordination]]:
    tree = SharedTree(None, timeout_s)
    try:
        yield tree, tree.session(ONE), tree.session(OTHER)
    finally:
        tree.abandon(ONE)
        tree.abandon(OTHER)
        tree.close()


def test_a_session_that_is_cut_briefly_receives_missed_events_afterwards() -> None:
    async def scenario() -> None:
        async with two_sessions(LONG_S) as (tree, one, other):
            states, seen = Heard[SessionState](), Heard[WatchEvent]()
            one.listen(states)
            await one.create("/a", ephemeral=True)
            await one.exists("/b", seen)
            tree.disconnect(ONE, CUT)
            await states.until(SessionState.SUSPENDED)
            await other.create("/b")
            with pytest.raises(ConnectionLoss):
                await one.exists("/b")
            assert seen.all == []
            tree.reconnect(ONE, CUT)
            assert await seen.first(1) == [WatchEvent(EventKind.CREATED, "/b")]
            assert states.all == [SessionState.SUSPENDED, SessionState.CONNECTED]
            assert await one.exists("/a") is not None

    asyncio.run(scenario())


def test_a_session_that_is_cut_too_long_expires_and_receives_only_that() -> None:
    async def scenario() -> None:
        async with two_sessions(SHORT_S) as (tree, one, other):
            states, missed, gone = Heard[SessionState](), Heard[object](), Heard[object]()
            one.listen(states)
            await one.create("/a", ephemeral=True)
            await one.exists("/b", missed)
            await other.exists("/a", gone)
            tree.disconnect(ONE, CUT)
            await other.create("/b")
            await gone.first(1)
            assert one.state is SessionState.SUSPENDED
            tree.reconnect(ONE, CUT)
            await states.until(SessionState.EXPIRED)
            assert states.all == [SessionState.SUSPENDED, SessionState.EXPIRED]
            assert missed.all == []
            with pytest.raises(SessionExpired):
                await one.exists("/b")
            await one.renew()
            assert await one.exists("/a") is None

    asyncio.run(scenario())


def test_a_broker_that_is_cut_and_paused_stays_disconnected_until_both_end() -> None:
    async def scenario() -> None:
        async with two_sessions(SHORT_S) as (tree, one, other):
            gone = Heard[object]()
            await one.create("/a", ephemeral=True)
            await other.exists("/a", gone)
            tree.disconnect(ONE, PAUSED)
            tree.disconnect(ONE, CUT)
            tree.reconnect(ONE, PAUSED)
            await gone.first(1)

    asyncio.run(scenario())


def test_a_killed_broker_keeps_its_nodes_until_its_session_expires() -> None:
    async def scenario() -> None:
        async with two_sessions(SHORT_S) as (tree, one, other):
            gone = Heard[object]()
            await one.create("/a", ephemeral=True)
            assert await other.exists("/a", gone) is not None
            tree.abandon(ONE)
            with pytest.raises(ConnectionLoss):
                await one.exists("/a")
            await gone.first(1)
            assert one.state is SessionState.CONNECTED

    asyncio.run(scenario())
