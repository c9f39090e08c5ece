"""The contract of tree sessions: one test suite for every implementation."""

import asyncio

import pytest

from barnabas.znodes.tree import (
    BadVersion,
    Coordination,
    CreateNode,
    EventKind,
    NodeExists,
    SessionExpired,
    SessionState,
    WatchEvent,
)
from tests.znodes.contract import Heard, OpenTree, two_sessions


class SessionContract:
    """Sessions end and are renewed, and several sessions share a tree."""

    @two_sessions
    async def test_closing_a_session_deletes_its_ephemeral_nodes_and_no_others(
        self, one: Coordination, other: Coordination
    ) -> None:
        heard, states = Heard[WatchEvent](), Heard[SessionState]()
        one.listen(states)
        await one.create("/kept")
        await one.create("/mine", ephemeral=True)
        await other.create("/theirs", ephemeral=True)
        await other.exists("/mine", heard)
        await one.close()
        assert await heard.first(1) == [WatchEvent(EventKind.DELETED, "/mine")]
        assert await other.exists("/mine") is None
        assert await other.exists("/kept") is not None
        assert await other.exists("/theirs") is not None
        with pytest.raises(SessionExpired):
            await one.get("/kept")
        assert states.all == []

    def test_an_expired_session_loses_everything_and_can_be_renewed(self, tree: OpenTree) -> None:
        asyncio.run(asyncio.wait_for(self._expire_and_renew(tree), timeout=60))

    async def _expire_and_renew(self, tree: OpenTree) -> None:
        async with tree() as under_test:
            one, other = await under_test.session(), await under_test.session()
            states, lost, seen = Heard[SessionState](), Heard[WatchEvent](), Heard[WatchEvent]()
            one.listen(states)
            await one.create("/broker", ephemeral=True)
            await one.exists("/later", lost)
            await other.exists("/broker", seen)
            old_id = one.session_id

            await under_test.expire(one)
            assert one.state is SessionState.EXPIRED
            assert await seen.first(1) == [WatchEvent(EventKind.DELETED, "/broker")]
            for attempt in (one.get("/"), one.create("/x"), one.multi([CreateNode("/x")])):
                with pytest.raises(SessionExpired):
                    await attempt

            await one.renew()
            await states.until(SessionState.CONNECTED)
            assert SessionState.EXPIRED in states.all
            assert one.session_id not in (0, old_id, other.session_id)
            await one.create("/broker", ephemeral=True)
            await other.create("/later")
            assert await one.exists("/later") is not None
            assert lost.all == []
            await one.close()
            await other.close()

    def test_a_renewed_session_works_like_a_new_one(self, tree: OpenTree) -> None:
        asyncio.run(asyncio.wait_for(self._renew_repeatedly(tree), timeout=60))

    async def _renew_repeatedly(self, tree: OpenTree) -> None:
        async with tree() as under_test:
            one, other = await under_test.session(), await under_test.session()
            states, news, ids = Heard[SessionState](), Heard[object](), [one.session_id]
            one.listen(states)
            await one.create("/watched")
            for count in range(1, 4):
                await under_test.expire(one)
                await one.renew()
                ids.append(one.session_id)
                await one.create("/broker", ephemeral=True)
                _, stat = await other.get("/broker")
                assert stat.ephemeral_owner == one.session_id
                await one.get("/watched", news)
                await other.set("/watched", b"")
                await news.first(count)
            assert len(set(ids)) == 4
            ended = [state for state in states.all if state is SessionState.EXPIRED]
            assert len(ended) == 3
            await one.renew()
            assert one.session_id == ids[-1]
            await one.close()
            await other.close()

    @two_sessions
    async def test_of_two_sessions_that_create_the_same_node_one_succeeds(
        self, one: Coordination, other: Coordination
    ) -> None:
        elected = await asyncio.gather(
            *(each.create("/controller", ephemeral=True) for each in (one, other)),
            return_exceptions=True,
        )
        assert sorted(type(each).__name__ for each in elected) == [NodeExists.__name__, "str"]
        _, stat = await one.get("/controller")
        winner = one if elected[0] == "/controller" else other
        assert stat.ephemeral_owner == winner.session_id

    @two_sessions
    async def test_counting_by_compare_and_set_loses_no_increment(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/count", b"0")

        async def raise_it(session: Coordination, times: int) -> None:
            while times:
                data, stat = await session.get("/count")
                try:
                    await session.set("/count", b"%d" % (int(data) + 1), stat.version)
                    times -= 1
                except BadVersion:
                    continue

        await asyncio.gather(raise_it(one, 10), raise_it(other, 10), raise_it(one, 10))
        data, stat = await one.get("/count")
        assert (data, stat.version) == (b"30", 30)

    @two_sessions
    async def test_many_concurrent_calls_of_a_session_complete_in_order(
        self, one: Coordination, other: Coordination
    ) -> None:
        paths = [f"/n{number}" for number in range(500)]
        await one.multi([CreateNode(path, path.encode()) for path in paths])
        answered = list[str]()

        async def read(path: str) -> bytes:
            data, _ = await other.get(path)
            answered.append(path)
            return data

        assert await asyncio.gather(*map(read, paths)) == [path.encode() for path in paths]
        assert answered == paths

    @two_sessions
    async def test_a_session_reads_its_own_writes(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/a", b"0")
        writing = [one.set("/a", b"%d" % number) for number in range(1, 20)]
        versions = [stat.version for stat in await asyncio.gather(*writing)]
        assert versions == list(range(1, 20))
        assert (await one.get("/a"))[0] == b"19"

    @two_sessions
    async def test_a_cancelled_call_affects_no_other(
        self, one: Coordination, other: Coordination
    ) -> None:
        heard = Heard[WatchEvent]()
        await one.create("/a")
        reading = [asyncio.ensure_future(one.get("/a")) for _ in range(20)]
        writing = asyncio.ensure_future(other.set("/a", b"1"))
        await asyncio.sleep(0)
        for each in reading[::2]:
            each.cancel()
        assert len(await asyncio.gather(*reading[1::2])) == 10
        await writing
        await one.get("/a", heard)
        await other.set("/a", b"2")
        assert await heard.first(1) == [WatchEvent(EventKind.CHANGED, "/a")]
