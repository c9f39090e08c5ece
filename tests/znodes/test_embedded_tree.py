"""The embedded tree: the contract, in memory and journalled, and its own promises."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas.base.errors import DiskFault
from barnabas.base.offload import InlineOffload, Offload, T, ThreadOffload
from barnabas.disk.disk import RealDisk
from barnabas.znodes.embedded.embedded_tree import EmbeddedSession, Tree
from barnabas.znodes.tree import (
    Coordination,
    CreateNode,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionState,
    WatchEvent,
)
from tests.znodes.contract import CoordinationContract, Heard, OpenTree
from tests.znodes.contract_sessions import SessionContract


class EmbeddedUnderTest:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    async def session(self) -> Coordination:
        return self._tree.session()

    async def expire(self, session: Coordination) -> None:
        assert isinstance(session, EmbeddedSession)
        await session.expire()


def opener(make: Callable[[], Tree]) -> OpenTree:
    @asynccontextmanager
    async def opened() -> AsyncIterator[EmbeddedUnderTest]:
        tree = make()
        yield EmbeddedUnderTest(tree)
        await tree.close()

    return opened


@pytest.fixture
def threads() -> Iterator[Offload]:
    with ThreadPoolExecutor(2) as executor:
        yield ThreadOffload(executor)


class TestInMemory(CoordinationContract, SessionContract):
    @pytest.fixture
    def tree(self) -> OpenTree:
        return opener(Tree)


class TestJournalled(CoordinationContract, SessionContract):
    @pytest.fixture
    def tree(self, tmp_path: Path, threads: Offload) -> OpenTree:
        return opener(lambda: Tree.open(RealDisk(str(tmp_path)), threads))


def test_each_transaction_has_the_next_zxid() -> None:
    async def scenario() -> None:
        tree = Tree()
        session = tree.session()
        await session.create("/a")
        await session.multi([CreateNode("/b"), CreateNode("/b/c")])
        with pytest.raises(NodeExists):
            await session.create("/a")
        stat = await session.set("/a", b"")
        assert (stat.czxid, stat.mzxid, tree.nodes.zxid) == (1, 3, 3)

    asyncio.run(scenario())


def test_an_invalid_path_is_a_bug_of_the_caller() -> None:
    async def scenario() -> None:
        session = Tree().session()
        for path in ("", "a", "/a/", "//a", "/a/../b", "/."):
            with pytest.raises(ValueError, match="not the path of a znode"):
                await session.create(path)
        with pytest.raises(ValueError, match="root"):
            await session.delete("/")

    asyncio.run(scenario())


class HeldOffload:
    """Lets the test decide when a write completes, or fails."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.fault: DiskFault | None = None

    async def __call__(self, work: Callable[[], T], /) -> T:
        self.started.set()
        await self.release.wait()
        if self.fault:
            raise self.fault
        return work()


def test_a_change_is_visible_only_when_it_is_on_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        held = HeldOffload()
        tree = Tree.open(RealDisk(str(tmp_path)), held)
        session, heard = tree.session(), Heard[WatchEvent]()
        await session.exists("/a", heard)
        writing = asyncio.ensure_future(session.create("/a"))
        await held.started.wait()
        assert await tree.session().exists("/a") is None
        assert heard.all == []
        held.release.set()
        await writing
        assert await tree.session().exists("/a") is not None
        await tree.close()

    asyncio.run(scenario())


def test_a_cancelled_write_leaves_memory_and_disk_in_agreement(tmp_path: Path) -> None:
    async def scenario() -> None:
        held = HeldOffload()
        tree = Tree.open(RealDisk(str(tmp_path)), held)
        session = tree.session()
        writing = asyncio.ensure_future(session.create("/a"))
        await held.started.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        held.release.set()
        await session.create("/b")
        assert await session.children("/") == ["a", "b"]
        await tree.close()
        again = Tree.open(RealDisk(str(tmp_path)), InlineOffload())
        assert await again.session().children("/") == ["a", "b"]
        await again.close()

    asyncio.run(scenario())


def test_a_failed_write_changes_nothing_visible(tmp_path: Path) -> None:
    async def scenario() -> None:
        held = HeldOffload()
        tree = Tree.open(RealDisk(str(tmp_path)), held)
        session, heard = tree.session(), Heard[WatchEvent]()
        await session.exists("/a", heard)
        held.release.set()
        held.fault = DiskFault("folder", OSError(28, "No space left on device"))
        with pytest.raises(DiskFault):
            await session.create("/a")
        assert await session.exists("/a") is None
        assert heard.all == []
        await tree.close()

    asyncio.run(scenario())


def test_a_call_that_waits_while_the_session_expires_is_not_done(tmp_path: Path) -> None:
    async def scenario() -> None:
        held = HeldOffload()
        tree = Tree.open(RealDisk(str(tmp_path)), held)
        session, other = tree.session(), tree.session()
        under_way = asyncio.ensure_future(session.create("/first", ephemeral=True))
        await held.started.wait()
        waiting = asyncio.ensure_future(session.create("/second", ephemeral=True))
        await asyncio.sleep(0)
        expiring = asyncio.ensure_future(session.expire())
        await asyncio.sleep(0)
        await session.renew()
        held.release.set()
        await under_way
        with pytest.raises(SessionExpired):
            await waiting
        await expiring
        assert await other.children("/") == []
        assert session.state is SessionState.CONNECTED
        await tree.close()

    asyncio.run(scenario())


def test_the_loop_is_free_during_a_disk_write(tmp_path: Path, threads: Offload) -> None:
    seen: list[int] = []

    class SlowDisk(RealDisk):
        def sync(self, path: str = "", /) -> None:
            seen.append(threading.get_ident())
            super().sync(path)

    async def scenario() -> None:
        tree = Tree.open(SlowDisk(str(tmp_path)), threads)
        seen.clear()
        await tree.session().create("/a")
        assert seen
        assert threading.get_ident() not in seen
        await tree.close()

    asyncio.run(scenario())


def test_a_watch_that_raises_affects_neither_reader_nor_other_watches() -> None:
    async def scenario() -> None:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: complaints.append(context["exception"])
        )

        def broken(event: WatchEvent) -> None:
            raise RuntimeError(event.path)

        session, heard = Tree().session(), Heard[WatchEvent]()
        await session.exists("/a", broken)
        await session.exists("/a", heard)
        await session.create("/a")
        assert await session.exists("/a") is not None
        assert len(await heard.first(1)) == len(complaints) == 1

    asyncio.run(scenario())


def test_a_missing_node_names_its_path() -> None:
    async def scenario() -> None:
        with pytest.raises(NoNode, match=r"^/config/topics/t$"):
            await Tree().session().get("/config/topics/t")
        with pytest.raises(NoNode, match=r"no parent /a$"):
            await Tree().session().create("/a/b")

    asyncio.run(scenario())
