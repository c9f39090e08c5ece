"""A session with a real ZooKeeper keeps the contract; and what only it has to stand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient

from barnabas.znodes.tree import Coordination, SessionState
from barnabas.znodes.zookeeper import ZooKeeperSession, connect
from tests.znodes.contract import CoordinationContract, Heard, OpenTree

TIMEOUTS = {"session_timeout_ms": 6000, "connection_timeout_ms": 10000}


class ZooKeeperUnderTest:
    def __init__(self, address: str) -> None:
        self._address = address

    async def session(self) -> Coordination:
        return await connect(self._address, **TIMEOUTS)

    async def expire(self, session: Coordination) -> None:
        """Take the session over by its id and password, and close it."""
        assert isinstance(session, ZooKeeperSession)
        states = Heard[SessionState]()
        session.listen(states)
        await asyncio.get_running_loop().run_in_executor(None, end, session)
        await states.until(SessionState.EXPIRED)


def end(session: ZooKeeperSession) -> None:
    assert session._connection is not None
    untyped: Any = KazooClient
    thief = untyped(session._hosts, client_id=session._connection.client.client_id)
    thief.start()
    thief.stop()
    thief.close()


class TestZooKeeper(CoordinationContract):
    @pytest.fixture
    def tree(self, zookeeper_chroot: str) -> OpenTree:
        @asynccontextmanager
        async def opened() -> AsyncIterator[ZooKeeperUnderTest]:
            yield ZooKeeperUnderTest(zookeeper_chroot)

        return opened
