"""The tree on a real ZooKeeper: the contract, and its own promises."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient

from barnabas.base.errors import ConfigError
from barnabas.znodes.tree import (
    ConnectionLoss,
    Coordination,
    CreateNode,
    DeleteNode,
    EventKind,
    NoNode,
    SessionState,
    WatchEvent,
)
from barnabas.znodes.zookeeper.dead_session import close_session
from barnabas.znodes.zookeeper.kazoo_requests import ReadMany
from barnabas.znodes.zookeeper.zookeeper_tree import ZooKeeperSession, connect
from tests.znodes.contract import CoordinationContract, Heard, OpenTree
from tests.znodes.contract_sessions import SessionContract
from tests.znodes.timeouts import TIMEOUTS


class ZooKeeperUnderTest:
    def __init__(self, address: str) -> None:
        self._address = address

    async def session(self) -> Coordination:
        return await connect(self._address, **TIMEOUTS)

    async def expire(self, session: Coordination) -> None:
        """Close the session through a second connection with its id and password."""
        assert isinstance(session, ZooKeeperSession)
        states = Heard[SessionState]()
        session.listen(states)
        assert session._connection is not None
        password = session._connection.password
        assert await close_session(session.hosts, session.session_id, password, within_s=60)
        await states.until(SessionState.EXPIRED)


class TestZooKeeper(CoordinationContract, SessionContract):
    @pytest.fixture
    def tree(self, zookeeper_chroot: str) -> OpenTree:
        @asynccontextmanager
        async def opened() -> AsyncIterator[ZooKeeperUnderTest]:
            yield ZooKeeperUnderTest(zookeeper_chroot)

        return opened


def test_each_chroot_is_a_separate_tree(zookeeper_chroot: str) -> None:
    async def scenario() -> None:
        deep = await connect(f"{zookeeper_chroot}/deep/er/", **TIMEOUTS)
        above = await connect(zookeeper_chroot, **TIMEOUTS)
        heard = Heard[WatchEvent]()
        await deep.children("/", heard)
        await deep.exists("/a", heard)
        assert await deep.create("/a") == "/a"
        assert await deep.multi([CreateNode("/a/n-", sequential=True)]) == ["/a/n-0000000000"]
        assert await heard.first(2) == [
            WatchEvent(EventKind.CREATED, "/a"),
            WatchEvent(EventKind.CHILDREN, "/"),
        ]
        with pytest.raises(NoNode, match=r"^/b$"):
            await deep.get("/b")
        assert await above.children("/") == ["deep"]
        assert await above.children("/deep/er/a") == ["n-0000000000"]
        await above.close()
        await deep.close()

    asyncio.run(scenario())


def test_a_node_without_data_is_null_as_kafka_writes_it(zookeeper_chroot: str) -> None:
    async def scenario() -> None:
        session = await connect(zookeeper_chroot, **TIMEOUTS)
        await session.create("/a/b", make_parents=True)
        await session.create("/c", b"data")
        await session.set("/c", b"")
        await session.close()

    asyncio.run(scenario())
    untyped: Any = KazooClient
    address, _, chroot = zookeeper_chroot.partition("/")
    client = untyped(address)
    client.start()
    # kazoo reads null as None and no bytes as b"".
    assert [client.get(f"/{chroot}{path}")[0] for path in ("", "/a", "/a/b", "/c")] == [None] * 4
    client.stop()
    client.close()


def test_an_invalid_path_is_a_bug_of_the_caller(zookeeper_chroot: str) -> None:
    async def scenario() -> None:
        session = await connect(zookeeper_chroot, **TIMEOUTS)
        for path in ("", "a", "/a/", "//a", "/a/../b", "/."):
            with pytest.raises(ValueError, match="not the path of a znode"):
                await session.create(path)
            with pytest.raises(ValueError, match="not the path of a znode"):
                await session.get(path)
        with pytest.raises(ValueError, match="root"):
            await session.delete("/")
        await session.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["127.0.0.1:port", "127.0.0.1:1/a//b", "127.0.0.1:1/../a"])
def test_an_invalid_address_is_refused_in_one_line(address: str) -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigError, match="is not a ZooKeeper address"):
            await connect(address, session_timeout_ms=6000, connection_timeout_ms=100)

    asyncio.run(scenario())


def test_thousands_of_reads_do_not_block_the_loop(zookeeper_chroot: str) -> None:
    async def scenario() -> None:
        session = await connect(zookeeper_chroot, **TIMEOUTS)
        paths = [f"/n{number}" for number in range(3000)]
        await session.multi([CreateNode(path, path.encode()) for path in paths])
        turns, heard = 0, Heard[WatchEvent]()
        reading = asyncio.gather(*(session.get(path, heard) for path in paths))
        while not reading.done():
            turns += 1
            await asyncio.sleep(0)
        assert [data.decode() for data, _ in await reading] == paths
        # The loop keeps turning while kazoo's thread reads and writes.
        assert turns > 10
        await session.multi([DeleteNode(path) for path in paths])
        assert [event.path for event in await heard.first(3000)] == paths
        await session.close()

    asyncio.run(scenario())


def test_nodes_are_read_one_by_one_from_a_server_without_multi_read(
    zookeeper_chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses and closes the connection, as old servers do on an unknown request."""
    monkeypatch.setattr(ReadMany, "type", 99)

    async def scenario() -> None:
        session = await connect(zookeeper_chroot, **TIMEOUTS)
        states = Heard[SessionState]()
        session.listen(states)
        await session.create("/a", b"one")
        with pytest.raises(ConnectionLoss):
            await session.get_many(["/a", "/missing"])
        await states.until(SessionState.CONNECTED)
        found = await session.get_many(["/a", "/missing"])
        assert found == [await session.get("/a"), None]
        await session.close()

    asyncio.run(scenario())


def test_a_watch_that_raises_affects_neither_reader_nor_other_watches(
    zookeeper_chroot: str,
) -> None:
    async def scenario() -> None:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: complaints.append(context["exception"])
        )

        def broken(event: WatchEvent) -> None:
            raise RuntimeError(event.path)

        session, heard = await connect(zookeeper_chroot, **TIMEOUTS), Heard[WatchEvent]()
        await session.exists("/a", broken)
        await session.exists("/a", heard)
        await session.create("/a")
        assert await session.exists("/a") is not None
        assert len(await heard.first(1)) == len(complaints) == 1
        await session.close()

    asyncio.run(scenario())
