"""The embedded tree and a real ZooKeeper, compared: same results, same events in the same order."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.znodes.embedded.embedded_tree import Tree
from barnabas.znodes.tree import Coordination, Stat, WatchEvent, ZnodeError
from barnabas.znodes.zookeeper.zookeeper_tree import connect
from tests.znodes.test_embedded_model import operations, some_paths
from tests.znodes.timeouts import TIMEOUTS

Step = tuple[str, Any]

_numbers: Final = count(1)
watched_paths = st.one_of(some_paths, st.just("/"))
steps = st.one_of(
    st.tuples(st.just("multi"), st.lists(operations, min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["get", "exists", "children"]), watched_paths),
)


class Observed:
    """Two sessions with one tree, and their results and events, with normalised numbers.

    A transaction id becomes the order in which it was first seen, a session id one of two names.
    """

    def __init__(self, one: Coordination, other: Coordination) -> None:
        self._sessions = (one, other)
        self._owners = {0: "nobody", one.session_id: "one", other.session_id: "other"}
        self._zxids: dict[int, int] = {}
        self._heard: list[WatchEvent] = []
        self.told: list[tuple[object, list[WatchEvent]]] = []

    async def take(self, which: int, kind: str, argument: Any) -> None:
        session, watcher = self._sessions[which], self._sessions[0]
        try:
            if kind == "multi":
                answer: object = await session.multi(argument)
            else:
                read: Callable[..., Any] = getattr(watcher, kind)
                answer = await read(argument, self._heard.append)
            answer = self._plain(answer)
        except ZnodeError as error:
            answer = (type(error), error.path)
        await watcher.exists("/")
        # The order of a writer's result and another session's watch is not promised.
        self.told.append((answer, self._heard.copy()))
        self._heard.clear()

    def _plain(self, answer: object) -> object:
        match answer:
            case Stat():
                times = [self._when(answer.czxid), self._when(answer.mzxid)]
                owner = self._owners[answer.ephemeral_owner]
                counts = (answer.version, answer.cversion, answer.num_children)
                return times, owner, counts, answer.data_length
            case list() | tuple():
                return [self._plain(each) for each in answer]
        return answer

    def _when(self, zxid: int) -> int:
        return self._zxids.setdefault(zxid, len(self._zxids))

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()


async def observe(one: Coordination, other: Coordination, taken: list[tuple[int, Step]]) -> Any:
    observed = Observed(one, other)
    for which, (kind, argument) in taken:
        await observed.take(which, kind, argument)
    await observed.close()
    return observed.told


async def compare(address: str, taken: list[tuple[int, Step]]) -> None:
    tree, chroot = Tree(), f"{address}/{next(_numbers)}"
    embedded = await observe(tree.session(), tree.session(), taken)
    one, other = [await connect(chroot, **TIMEOUTS) for _ in range(2)]
    assert await observe(one, other, taken) == embedded


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(taken=st.lists(st.tuples(st.integers(0, 1), steps), min_size=5, max_size=40))
def test_both_trees_return_and_notify_alike(
    zookeeper_chroot: str, taken: list[tuple[int, Step]]
) -> None:
    asyncio.run(compare(zookeeper_chroot, taken))
