"""A ZooKeeper session that loses its connection: its state, missed events and expiry."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from barnabas.znodes.tree import (
    ConnectionLoss,
    CreateNode,
    EventKind,
    NodeExists,
    SessionExpired,
    SessionState,
    WatchEvent,
)
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer
from barnabas.znodes.zookeeper.zookeeper_tree import ZooKeeperSession, connect
from tests.znodes.contract import Heard
from tests.znodes.proxy import Proxy, proxy_to

FreshZooKeeper = Callable[[], ZooKeeperServer]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, timeout=60))
    assert [each.name for each in threading.enumerate() if "zk_loop" in each.name] == []


async def begin(address: str, session_timeout_ms: int = 6000) -> ZooKeeperSession:
    return await connect(
        address, session_timeout_ms=session_timeout_ms, connection_timeout_ms=10000
    )


@asynccontextmanager
async def cut_off_and_whole(
    address: str, session_timeout_ms: int = 6000
) -> AsyncIterator[tuple[Proxy, ZooKeeperSession, ZooKeeperSession]]:
    """A session behind a proxy that can be cut, and one with a direct connection."""
    target, _, chroot = address.partition("/")
    async with proxy_to(target) as proxy:
        one = await begin(f"127.0.0.1:{proxy.port}/{chroot}", session_timeout_ms)
        other = await begin(address)
        yield proxy, one, other
        proxy.mend()
        await one.close()
        await other.close()


def listened(session: ZooKeeperSession) -> Heard[SessionState]:
    states = Heard[SessionState]()
    session.listen(states)
    return states


async def while_cut_off(
    proxy: Proxy, session: ZooKeeperSession, change: Callable[[], Coroutine[Any, Any, object]]
) -> None:
    """Return when the session is connected again."""
    states = listened(session)
    proxy.cut()
    await states.until(SessionState.SUSPENDED)
    await change()
    proxy.mend()
    await states.until(SessionState.CONNECTED)


def test_a_disconnected_session_is_suspended_at_once_and_continues_when_reconnected(
    zookeeper_chroot: str,
) -> None:
    async def scenario() -> None:
        async with cut_off_and_whole(zookeeper_chroot) as (proxy, one, _):
            await one.create("/mine", ephemeral=True)
            session_id = one.session_id

            async def refused() -> None:
                for attempt in (one.get("/mine"), one.set("/mine", b"x"), one.multi([])):
                    with pytest.raises(ConnectionLoss):
                        await asyncio.wait_for(attempt, timeout=0.5)
                assert one.state is SessionState.SUSPENDED

            states = listened(one)
            await while_cut_off(proxy, one, refused)
            assert states.all == [SessionState.SUSPENDED, SessionState.CONNECTED]
            assert one.session_id == session_id
            _, stat = await one.get("/mine")
            assert stat.ephemeral_owner == session_id
            assert stat.version == 0

    run(scenario())


def test_a_session_survives_a_connection_without_a_response(zookeeper_chroot: str) -> None:
    """As with a starting server that accepted the connection too early."""

    async def scenario() -> None:
        async with cut_off_and_whole(zookeeper_chroot, 15_000) as (proxy, one, _):
            states = listened(one)
            proxy.forget(connections=1)

            async def nothing() -> None:
                pass

            await while_cut_off(proxy, one, nothing)
            assert states.all == [SessionState.SUSPENDED, SessionState.CONNECTED]

    run(scenario())


def test_watches_survive_a_lost_connection(zookeeper_chroot: str) -> None:
    async def scenario() -> None:
        async with cut_off_and_whole(zookeeper_chroot) as (proxy, one, other):
            data, children, absent = (Heard[WatchEvent]() for _ in range(3))
            await one.create("/a/b", make_parents=True)
            await one.get("/a", data)
            await one.children("/a", children)
            await one.exists("/c", absent)
            await while_cut_off(proxy, one, lambda: other.create("/unrelated"))
            await while_cut_off(proxy, one, lambda: other.set("/a/b", b"not watched"))
            assert data.all == children.all == absent.all == []
            await other.set("/a", b"1")
            await other.create("/c")
            await other.delete("/a/b")
            assert await data.first(1) == [WatchEvent(EventKind.CHANGED, "/a")]
            assert await absent.first(1) == [WatchEvent(EventKind.CREATED, "/c")]
            assert await children.first(1) == [WatchEvent(EventKind.CHILDREN, "/a")]

    run(scenario())


def test_watches_fire_for_missed_events_before_the_session_is_connected_again(
    zookeeper_chroot: str,
) -> None:
    expected = [
        WatchEvent(EventKind.CHANGED, "/changed"),
        WatchEvent(EventKind.CHILDREN, "/grown"),
        WatchEvent(EventKind.CREATED, "/absent"),
        WatchEvent(EventKind.DELETED, "/empty"),
        WatchEvent(EventKind.DELETED, "/gone"),
        WatchEvent(EventKind.DELETED, "/replaced"),
    ]

    async def scenario() -> None:
        async with cut_off_and_whole(zookeeper_chroot) as (proxy, one, other):
            news = Heard[object]()
            for path in ("/changed", "/gone", "/replaced", "/grown", "/empty", "/same"):
                await one.create(path)
            for path in ("/changed", "/gone", "/replaced", "/absent", "/same"):
                await one.exists(path, news)
            for path in ("/grown", "/empty", "/same"):
                await one.children(path, news)
            one.listen(news)

            async def change() -> None:
                await other.set("/changed", b"1")
                await other.set("/changed", b"2")
                await other.delete("/gone")
                await other.delete("/replaced")
                await other.create("/replaced")
                await other.create("/absent")
                await other.create("/grown/child")
                await other.delete("/empty")
                await other.set("/grown", b"its data is not watched")

            await while_cut_off(proxy, one, change)
            assert news.all[0] is SessionState.SUSPENDED
            assert news.all[-1] is SessionState.CONNECTED
            told = [event for event in news.all if isinstance(event, WatchEvent)]
            assert sorted(told, key=lambda event: (event.kind.value, event.path)) == expected
            await other.set("/changed", b"3")
            await other.set("/same", b"still watched")
            assert (await news.first(9))[8] == WatchEvent(EventKind.CHANGED, "/same")

    run(scenario())


def test_a_session_that_is_disconnected_too_long_is_expired_until_renewed(
    zookeeper_chroot: str,
) -> None:
    async def scenario() -> None:
        async with cut_off_and_whole(zookeeper_chroot, 1000) as (proxy, one, other):
            gone, lost, states = Heard[WatchEvent](), Heard[WatchEvent](), listened(one)
            await one.create("/broker", ephemeral=True)
            await one.exists("/later", lost)
            await other.exists("/broker", gone)
            proxy.cut()
            await gone.first(1)
            with pytest.raises(ConnectionLoss):
                await one.get("/")
            proxy.mend()
            await states.until(SessionState.EXPIRED)
            with pytest.raises(SessionExpired):
                await one.get("/")
            old = one.session_id
            await asyncio.gather(one.renew(), one.renew())
            assert one.session_id != old
            await states.until(SessionState.CONNECTED)
            await one.create("/broker", ephemeral=True)
            await while_cut_off(proxy, one, lambda: other.create("/later"))
            assert lost.all == []
            assert await one.exists("/broker") is not None

    run(scenario())


def test_a_write_whose_response_was_lost_is_done_before_the_next_read_or_never(
    zookeeper_chroot: str,
) -> None:
    async def scenario() -> None:
        async with cut_off_and_whole(zookeeper_chroot) as (proxy, one, other):
            states, doubtful = listened(one), dict[str, bool]()

            async def write(path: str) -> None:
                try:
                    await one.create(path)
                except ConnectionLoss:
                    while one.state is not SessionState.CONNECTED:
                        await states.first(len(states.all) + 1)
                    doubtful[path] = await one.exists(path) is not None

            for round in range(5):
                writing = [asyncio.create_task(write(f"/{round}-{n}")) for n in range(300)]
                for _ in range(round):
                    await asyncio.sleep(0)
                proxy.cut()
                await states.until(SessionState.SUSPENDED)
                proxy.mend()
                await states.until(SessionState.CONNECTED)
                await asyncio.gather(*writing)
            assert doubtful
            found = await asyncio.gather(*(other.exists(path) for path in doubtful))
            assert [stat is not None for stat in found] == list(doubtful.values())

    run(scenario())


def test_nothing_is_done_after_the_session_expired(zookeeper_chroot: str) -> None:
    async def scenario() -> None:
        async with cut_off_and_whole(zookeeper_chroot, 1000) as (proxy, one, other):
            gone, failed = Heard[WatchEvent](), list[str]()
            await one.create("/broker", ephemeral=True)
            await other.exists("/broker", gone)
            proxy.cut()
            await gone.first(1)
            proxy.mend()
            while one.state is not SessionState.EXPIRED:
                path = f"/n{len(failed)}"
                try:
                    await one.create(path)
                except (ConnectionLoss, SessionExpired):
                    failed.append(path)
                await asyncio.sleep(0)
            assert await other.children("/") == []

    run(scenario())


def test_a_paused_server_suspends_its_sessions_until_it_resumes(
    fresh_zookeeper: FreshZooKeeper,
) -> None:
    server = fresh_zookeeper()

    async def scenario() -> None:
        session, heard = await begin(server.address, 2000), Heard[WatchEvent]()
        states, before = listened(session), session.session_id
        await session.create("/mine", ephemeral=True)
        await session.exists("/a", heard)
        server.pause()
        with pytest.raises(ConnectionLoss):
            await session.create("/a")
        server.resume()
        await states.until(SessionState.CONNECTED)
        # The server had received it.
        assert await heard.first(1) == [WatchEvent(EventKind.CREATED, "/a")]
        assert session.session_id == before
        assert await session.exists("/mine") is not None
        await session.close()

    run(scenario())


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_sessions_survive_a_restart_of_the_server(
    fresh_zookeeper: FreshZooKeeper, end: str
) -> None:
    server = fresh_zookeeper()

    async def scenario() -> None:
        # The timeout must outlast the start of a server on a busy machine.
        session = await begin(f"{server.address}/chroot", session_timeout_ms=30_000)
        heard, states = Heard[WatchEvent](), listened(session)
        await session.create("/mine", ephemeral=True)
        await session.children("/", heard)
        getattr(server, end)()
        await states.until(SessionState.SUSPENDED)
        with pytest.raises(ConnectionLoss):
            await session.create("/refused")
        server.start()
        await states.until(SessionState.CONNECTED)
        assert heard.all == []
        await session.create("/after")
        assert await heard.first(1) == [WatchEvent(EventKind.CHILDREN, "/")]
        assert await session.children("/") == ["after", "mine"]
        with pytest.raises(NodeExists):
            await session.multi([CreateNode("/mine")])
        await session.close()

    run(scenario())


def test_renew_waits_for_a_server_and_close_does_not(fresh_zookeeper: FreshZooKeeper) -> None:
    server = fresh_zookeeper()

    async def scenario() -> None:
        session, abandoned = await begin(server.address, 1000), await begin(server.address, 1000)
        states = listened(session)
        async with proxy_to(server.address) as proxy:
            await session.create("/mine", ephemeral=True)
            cut = await begin(f"127.0.0.1:{proxy.port}", 1000)
            heard, its_states = Heard[WatchEvent](), listened(cut)
            await cut.create("/cut", ephemeral=True)
            await session.exists("/cut", heard)
            proxy.cut()
            await heard.first(1)
            proxy.mend()
            await its_states.until(SessionState.EXPIRED)
            server.kill()
            await states.until(SessionState.SUSPENDED)
            renewing = asyncio.create_task(cut.renew())
            await abandoned.close()
            assert not renewing.done()
            server.start()
            await renewing
            assert cut.state is SessionState.CONNECTED
            await cut.close()
        await session.close()

    run(scenario())


def test_connecting_without_a_server_times_out_and_leaves_nothing_running(
    fresh_zookeeper: FreshZooKeeper,
) -> None:
    server = fresh_zookeeper()
    server.stop()

    async def scenario() -> None:
        with pytest.raises(ConnectionLoss, match="responded within 300 ms"):
            await connect(server.address, session_timeout_ms=6000, connection_timeout_ms=300)

    run(scenario())


def test_closing_a_session_during_renew_ends_the_wait(
    fresh_zookeeper: FreshZooKeeper,
) -> None:
    server = fresh_zookeeper()
    server.stop()

    async def scenario() -> None:
        session = ZooKeeperSession(server.address, 6000)
        renewing = asyncio.create_task(session.renew())
        await asyncio.sleep(0)
        await session.close()
        with pytest.raises(SessionExpired):
            await renewing

    run(scenario())


@pytest.mark.parametrize("seed", range(3))
def test_a_watcher_sees_the_last_change_however_often_the_connection_is_lost(
    zookeeper_chroot: str, seed: int
) -> None:
    random = Random(seed)

    async def follow(session: ZooKeeperSession, last: bytes, states: Heard[SessionState]) -> None:
        """Read when the watch fires, and never otherwise."""
        data = b""
        while data != last:
            changed = Heard[WatchEvent]()
            try:
                data, _ = await session.get("/a", changed)
            except ConnectionLoss:
                while session.state is not SessionState.CONNECTED:
                    await states.first(len(states.all) + 1)
            else:
                if data != last:
                    await changed.first(1)

    async def change(session: ZooKeeperSession) -> None:
        for number in range(1, 101):
            await session.set("/a", b"%d" % number)
            await asyncio.sleep(random.uniform(0, 0.02))

    async def scenario() -> None:
        async with cut_off_and_whole(zookeeper_chroot) as (proxy, one, other):
            await other.create("/a", b"0")
            states = listened(one)
            changing = asyncio.create_task(change(other))
            following = asyncio.create_task(follow(one, b"100", states))
            while not changing.done():
                proxy.cut()
                await asyncio.sleep(random.uniform(0, 0.05))
                proxy.mend()
                await asyncio.sleep(random.uniform(0, 0.3))
            await asyncio.wait_for(following, timeout=20)
            assert SessionState.SUSPENDED in states.all
            assert SessionState.EXPIRED not in states.all

    run(scenario())
