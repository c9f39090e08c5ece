"""The contract of a coordination tree: one test suite for every implementation.

A test class derives from CoordinationContract (nodes, transactions, watches) and
from SessionContract (contract_sessions.py) and has a fixture `tree`: a function
that opens an empty tree as an asynchronous context manager.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import pytest

from barnabas.znodes.tree import (
    ANY_VERSION,
    BadVersion,
    CheckVersion,
    Coordination,
    CreateNode,
    DeleteNode,
    EventKind,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SetData,
    Stat,
    WatchEvent,
)

T = TypeVar("T")


class TreeUnderTest(Protocol):
    """An empty tree that can open and expire sessions."""

    async def session(self) -> Coordination: ...

    async def expire(self, session: Coordination) -> None:
        """Expire the session at the server; return when its owner knows."""
        ...


OpenTree: TypeAlias = Callable[[], AbstractAsyncContextManager[TreeUnderTest]]
Scenario: TypeAlias = Callable[[Any, Coordination, Coordination], Awaitable[None]]


def two_sessions(scenario: Scenario) -> Callable[[object, OpenTree], None]:
    """Run a scenario with two sessions on one empty tree."""

    async def run(suite: object, tree: OpenTree) -> None:
        async with tree() as under_test:
            one, other = await under_test.session(), await under_test.session()
            await scenario(suite, one, other)
            await one.close()
            await other.close()

    def test(self: object, tree: OpenTree) -> None:
        asyncio.run(asyncio.wait_for(run(self, tree), timeout=30))

    return test


class Heard(Generic[T]):
    """A watch or listener that records events, and can wait for one."""

    def __init__(self) -> None:
        self.all: list[T] = []
        self._news = asyncio.Event()

    def __call__(self, news: T) -> None:
        self.all.append(news)
        self._news.set()

    async def first(self, count: int) -> list[T]:
        while len(self.all) < count:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), timeout=30)
            except TimeoutError:
                raise AssertionError(f"nothing more was heard than {self.all}") from None
        return self.all

    async def until(self, last: T) -> list[T]:
        """Wait until `last` is the last event."""
        while self.all[-1:] != [last]:
            await self.first(len(self.all) + 1)
        return self.all


class CoordinationContract:
    """Creating, reading, setting and deleting; transactions; watches."""

    @two_sessions
    async def test_a_node_that_one_session_creates_another_reads(
        self, one: Coordination, other: Coordination
    ) -> None:
        assert await one.create("/a", b"\x00\xff text") == "/a"
        data, stat = await other.get("/a")
        assert data == b"\x00\xff text"
        assert stat.version == 0
        assert stat.czxid == stat.mzxid > 0
        assert (stat.ephemeral_owner, stat.num_children, stat.data_length) == (0, 0, 7)

    @two_sessions
    async def test_a_node_may_be_without_data(self, one: Coordination, other: Coordination) -> None:
        await one.create("/a")
        assert (await other.get("/a"))[0] == b""
        await one.set("/a", b"something")
        await one.set("/a", b"")
        data, stat = await other.get("/a")
        assert (data, stat.data_length, stat.version) == (b"", 0, 2)

    @two_sessions
    async def test_creating_twice_or_without_a_parent_is_refused(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/a")
        with pytest.raises(NodeExists) as exists:
            await other.create("/a")
        assert exists.value.path == "/a"
        with pytest.raises(NoNode):
            await other.create("/b/c")
        assert await one.exists("/b") is None

    @two_sessions
    async def test_missing_parents_are_created_with_make_parents(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/a")
        await one.create("/a/b/c/d", b"leaf", make_parents=True)
        assert (await other.get("/a/b/c"))[0] == b""
        assert await other.children("/a/b/c") == ["d"]
        assert await other.create("/x/y-", sequential=True, make_parents=True) == "/x/y-0000000000"

    @two_sessions
    async def test_reading_setting_and_deleting_a_missing_node_is_refused(
        self, one: Coordination, other: Coordination
    ) -> None:
        assert await one.exists("/a") is None
        for attempt in (one.get("/a"), one.children("/a"), one.set("/a", b""), one.delete("/a")):
            with pytest.raises(NoNode):
                await attempt

    @two_sessions
    async def test_many_nodes_are_read_at_once_with_none_for_missing_ones(
        self, one: Coordination, other: Coordination
    ) -> None:
        for name, data in (("/a", b"one"), ("/b", b""), ("/b/c", b"three" * 1000)):
            await one.create(name, data)
        await one.set("/a", b"changed")
        paths = ["/b/c", "/missing", "/a", "/b", "/a"]
        found = await other.get_many(paths)
        assert found[1] is None
        assert [found[n] for n in (0, 2, 3, 4)] == [await other.get(paths[n]) for n in (0, 2, 3, 4)]
        assert await other.get_many([]) == []
        assert await other.get_many(["/missing"]) == [None]

    @two_sessions
    async def test_a_set_raises_the_version_and_the_mzxid_only(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/a", b"0")
        _, before = await one.get("/a")
        after = await other.set("/a", b"one", 0)
        assert (after.version, after.czxid, after.data_length) == (1, before.czxid, 3)
        assert after.mzxid > before.mzxid
        assert await one.get("/a") == (b"one", after)
        assert (await one.set("/a", b"2")).version == 2

    @two_sessions
    async def test_another_version_than_expected_changes_nothing(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/a", b"0")
        for attempt in (one.set("/a", b"1", 1), one.delete("/a", 7)):
            with pytest.raises(BadVersion):
                await attempt
        data, stat = await other.get("/a")
        assert (data, stat.version) == (b"0", 0)
        await one.delete("/a", 0)
        assert await other.exists("/a") is None

    @two_sessions
    async def test_a_node_with_children_is_not_deleted(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/a/b", make_parents=True)
        with pytest.raises(NotEmpty):
            await one.delete("/a")
        await other.delete("/a/b")
        await one.delete("/a")
        assert await one.exists("/a") is None

    @two_sessions
    async def test_children_are_names_in_order_and_counted_by_cversion(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/a")
        for name in ("c", "b", "d"):
            await one.create(f"/a/{name}")
        await one.delete("/a/c")
        assert await other.children("/a") == ["b", "d"]
        stat = await other.exists("/a")
        assert stat is not None
        assert (stat.cversion, stat.num_children, stat.version) == (4, 2, 0)

    @two_sessions
    async def test_sequential_names_count_the_children_ever_created(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/q")
        first = await one.create("/q/n-", b"x", sequential=True)
        await one.create("/q/other")
        await one.delete(first)
        assert first == "/q/n-0000000000"
        assert await other.create("/q/n-", sequential=True) == "/q/n-0000000002"
        assert await other.create("/q/m_", sequential=True) == "/q/m_0000000003"

    @two_sessions
    async def test_an_ephemeral_node_belongs_to_its_session_and_has_no_children(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/e", b"mine", ephemeral=True)
        stat = await other.exists("/e")
        assert stat is not None
        assert stat.ephemeral_owner == one.session_id != other.session_id
        with pytest.raises(NoChildrenForEphemerals):
            await other.create("/e/child")

    @two_sessions
    async def test_a_later_node_has_a_higher_czxid(
        self, one: Coordination, other: Coordination
    ) -> None:
        czxids = []
        for session in (one, other, one):
            await session.create("/broker", ephemeral=True)
            czxids.append((await one.get("/broker"))[1].czxid)
            await session.delete("/broker")
        assert czxids == sorted(set(czxids))

    # Transactions

    @two_sessions
    async def test_a_transaction_does_all_operations_and_returns_each_result(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/epoch", b"0")
        await one.create("/old")
        answers = await one.multi(
            [
                CheckVersion("/epoch", 0),
                CreateNode("/controller", b"1", ephemeral=True),
                SetData("/epoch", b"1", 0),
                DeleteNode("/old"),
                CreateNode("/n-", sequential=True),
            ]
        )
        assert [answers[0], answers[1], answers[3]] == [None, "/controller", None]
        assert isinstance(answers[2], Stat)
        assert answers[2].version == 1
        assert isinstance(answers[4], str)
        assert answers[4].startswith("/n-")
        _, controller = await other.get("/controller")
        assert (controller.czxid, controller.ephemeral_owner) == (answers[2].mzxid, one.session_id)
        assert await other.exists("/old") is None

    @two_sessions
    async def test_a_transaction_that_fails_changes_nothing(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/epoch", b"0")
        await one.create("/state", b"s")
        with pytest.raises(BadVersion) as moved:
            await one.multi([SetData("/state", b"t"), CreateNode("/x"), CheckVersion("/epoch", 1)])
        assert moved.value.path == "/epoch"
        with pytest.raises(NodeExists) as taken:
            await one.multi([DeleteNode("/epoch"), CreateNode("/state")])
        assert taken.value.path == "/state"
        data, stat = await other.get("/state")
        assert (data, stat.version) == (b"s", 0)
        assert await other.exists("/epoch") is not None
        assert await other.exists("/x") is None

    @two_sessions
    async def test_operations_of_a_transaction_see_those_before_them(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.multi(
            [
                CreateNode("/a"),
                CreateNode("/a/b"),
                SetData("/a/b", b"1", 0),
                SetData("/a/b", b"2", 1),
            ]
        )
        assert (await other.get("/a/b"))[0] == b"2"
        await one.multi([DeleteNode("/a/b", 2), DeleteNode("/a"), CreateNode("/a", b"again")])
        assert (await other.get("/a"))[0] == b"again"
        with pytest.raises(NotEmpty):
            await one.multi([CreateNode("/a/c"), DeleteNode("/a")])
        with pytest.raises(NoNode):
            await one.multi([DeleteNode("/a"), CreateNode("/a/c")])
        assert await other.children("/a") == []

    @two_sessions
    async def test_a_transaction_may_be_empty_or_only_check(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/a")
        assert await one.multi([]) == []
        assert await one.multi([CheckVersion("/a", 0), CheckVersion("/a", ANY_VERSION)]) == [
            None,
            None,
        ]
        for check, refused in (
            (CheckVersion("/a", 1), BadVersion),
            (CheckVersion("/b", 0), NoNode),
        ):
            with pytest.raises(refused):
                await other.multi([check])

    @two_sessions
    async def test_a_transaction_may_create_ephemeral_and_sequential_nodes(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/q")
        member = CreateNode("/q/member-", b"data", ephemeral=True, sequential=True)
        assert await one.multi([member, member]) == ["/q/member-0000000000", "/q/member-0000000001"]
        _, stat = await other.get("/q/member-0000000001")
        assert stat.ephemeral_owner == one.session_id

    @two_sessions
    async def test_a_node_created_again_starts_at_version_0(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/a", b"old")
        before = await one.set("/a", b"newer")
        await other.multi([DeleteNode("/a", 1), CreateNode("/a", b"new")])
        data, after = await one.get("/a")
        assert (data, after.version) == (b"new", 0)
        assert after.czxid > before.mzxid

    @two_sessions
    async def test_a_value_may_be_large(self, one: Coordination, other: Coordination) -> None:
        value = bytes(range(256)) * 3000
        await one.create("/a", value)
        assert (await other.get("/a"))[0] == value

    # Watches

    @two_sessions
    async def test_a_failed_transaction_fires_no_watch(
        self, one: Coordination, other: Coordination
    ) -> None:
        heard = Heard[WatchEvent]()
        await one.create("/a")
        await one.get("/a", heard)
        await one.children("/", heard)
        with pytest.raises(NoNode):
            await other.multi([SetData("/a", b"1"), CreateNode("/b"), DeleteNode("/c")])
        await other.multi([CheckVersion("/a", 0)])
        assert await one.children("/") == ["a"]
        assert heard.all == []

    @two_sessions
    async def test_a_watch_receives_the_first_event_of_a_transaction(
        self, one: Coordination, other: Coordination
    ) -> None:
        data, children = Heard[WatchEvent](), Heard[WatchEvent]()
        await one.create("/a")
        await one.get("/a", data)
        await one.children("/", children)
        await other.multi(
            [DeleteNode("/a"), CreateNode("/a", b"1"), SetData("/a", b"2"), CreateNode("/b")]
        )
        assert (await one.get("/a"))[0] == b"2"
        assert data.all == [WatchEvent(EventKind.DELETED, "/a")]
        assert children.all == [WatchEvent(EventKind.CHILDREN, "/")]

    @two_sessions
    async def test_a_data_watch_fires_once(self, one: Coordination, other: Coordination) -> None:
        heard = Heard[WatchEvent]()
        await one.create("/a")
        await one.get("/a", heard)
        await other.create("/a/child")
        await other.set("/a", b"1")
        await other.set("/a", b"2")
        assert await heard.first(1) == [WatchEvent(EventKind.CHANGED, "/a")]
        assert (await one.get("/a", heard))[0] == b"2"
        await other.delete("/a/child")
        await other.delete("/a")
        assert (await heard.first(2))[1] == WatchEvent(EventKind.DELETED, "/a")

    @two_sessions
    async def test_an_existence_watch_fires_on_creation_and_deletion(
        self, one: Coordination, other: Coordination
    ) -> None:
        for change, kind in (
            (other.create("/a"), EventKind.CREATED),
            (other.set("/a", b"1"), EventKind.CHANGED),
            (other.delete("/a"), EventKind.DELETED),
        ):
            heard = Heard[WatchEvent]()
            await one.exists("/a", heard)
            await change
            assert await heard.first(1) == [WatchEvent(kind, "/a")]

    @two_sessions
    async def test_a_child_watch_fires_on_changed_children_and_on_deletion_of_the_parent(
        self, one: Coordination, other: Coordination
    ) -> None:
        heard = Heard[WatchEvent]()
        await one.create("/a")
        await one.children("/a", heard)
        await other.set("/a", b"data is not its business")
        await other.create("/a/b")
        assert await heard.first(1) == [WatchEvent(EventKind.CHILDREN, "/a")]
        await one.children("/a", heard)
        await other.delete("/a/b")
        assert await heard.first(2) == [WatchEvent(EventKind.CHILDREN, "/a")] * 2
        await one.children("/a", heard)
        await other.delete("/a")
        assert (await heard.first(3))[2] == WatchEvent(EventKind.DELETED, "/a")

    @two_sessions
    async def test_a_failed_read_sets_no_watch(
        self, one: Coordination, other: Coordination
    ) -> None:
        heard, after = Heard[WatchEvent](), Heard[WatchEvent]()
        for read in (one.get("/a", heard), one.children("/a", heard)):
            with pytest.raises(NoNode):
                await read
        await other.create("/a")
        await other.create("/a/b")
        await one.exists("/z", after)
        await other.create("/z")
        await after.first(1)
        assert heard.all == []

    @two_sessions
    async def test_the_same_watch_on_the_same_node_fires_once(
        self, one: Coordination, other: Coordination
    ) -> None:
        heard, twin = Heard[WatchEvent](), Heard[WatchEvent]()
        await one.create("/a")
        for watch in (heard, heard, twin):
            await one.get("/a", watch)
        await other.set("/a", b"1")
        await twin.first(1)
        await one.get("/a")
        assert len(heard.all) == 1

    @two_sessions
    async def test_watches_fire_in_the_order_of_the_transactions(
        self, one: Coordination, other: Coordination
    ) -> None:
        heard = Heard[WatchEvent]()
        paths = [f"/n{number}" for number in range(20)]
        for path in paths:
            await one.exists(path, heard)
        await other.multi([CreateNode(path) for path in paths[10:]])
        for path in paths[:10]:
            await other.create(path)
        assert [event.path for event in await heard.first(20)] == paths[10:] + paths[:10]

    @two_sessions
    async def test_no_read_shows_a_change_before_its_watch_fired(
        self, one: Coordination, other: Coordination
    ) -> None:
        await one.create("/a", b"0")
        heard = Heard[WatchEvent]()
        await one.get("/a", heard)
        writing = asyncio.ensure_future(other.set("/a", b"1"))
        data = b"0"
        while data == b"0":
            await asyncio.sleep(0)
            data, _ = await one.get("/a")
        assert heard.all == [WatchEvent(EventKind.CHANGED, "/a")]
        await writing

    @two_sessions
    async def test_a_sessions_own_changes_fire_its_watches(
        self, one: Coordination, other: Coordination
    ) -> None:
        heard = Heard[WatchEvent]()
        await one.exists("/a", heard)
        await one.create("/a")
        assert await heard.first(1) == [WatchEvent(EventKind.CREATED, "/a")]
        await one.children("/", heard)
        await one.create("/b")
        assert len(await heard.first(2)) == 2
