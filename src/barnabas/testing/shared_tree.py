"""The coordination tree of a cluster under test, shared by brokers on different threads.

Theory of operation. The tree runs on its own loop and thread, as does each broker. A broker's
calls go to the tree's loop; results, watches and states come back in the order in which they
happened there. The tree's side of a session (`_SessionLink`) delivers nothing while the connection
is cut, and nothing at all after the broker was killed.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from barnabas.base.offload import InlineOffload
from barnabas.testing.failing_disk import Mount, Volume
from barnabas.testing.misuse import NotInTime
from barnabas.znodes.embedded.embedded_tree import EmbeddedSession, Tree
from barnabas.znodes.embedded.relayed_session import Ask, RelayedSession
from barnabas.znodes.tree import (
    ConnectionLoss,
    SessionState,
    Watch,
    WatchEvent,
    ZnodeError,
)

T = TypeVar("T")

CUT: Final = "cut"
PAUSED: Final = "paused"


class SharedTree:
    """The tree, its thread, and the sessions of all brokers; any thread may use it."""

    def __init__(self, folder: str | None, session_timeout_s: float) -> None:
        # On disk only if the cluster keeps its data.
        self._tree = Tree() if folder is None else _opened(folder)
        self._own = self._tree.session()
        self._session_timeout_s = session_timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="barnabas-coordination", daemon=True
        )
        self._thread.start()
        self._links: dict[int, _SessionLink] = {}
        self._cut: set[int] = set()

    @property
    def own(self) -> EmbeddedSession:
        """A session of the test itself; only for use within `run`."""
        return self._own

    def run(self, work: Coroutine[Any, Any, T], within_s: float | None = None) -> T:
        """Run a coroutine on the tree's loop and return its result.

        Raises  NotInTime, without a message, after `within_s`
        """
        doing = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, within_s), self._loop)
        try:
            return doing.result()
        except TimeoutError:
            raise NotInTime from None
        except BaseException:
            doing.cancel()
            raise

    def close(self) -> None:
        """Close the tree; brokers must have stopped before."""
        self.run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        await self._tree.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    # -- brokers' sessions ---------------------------------------------------

    def session(self, broker: int) -> "BridgedSession":
        """Begin a session of a broker; call it on the broker's loop."""
        near = asyncio.get_running_loop()
        return self.run(self._begin(broker, near))

    async def _begin(self, broker: int, near: asyncio.AbstractEventLoop) -> "BridgedSession":
        self._links[broker] = link = _SessionLink(
            self._tree.session(), near, self._session_timeout_s
        )
        session = BridgedSession(link, self._loop, near)
        if broker in self._cut:
            link.disconnect(CUT)
        return session

    def disconnect(self, broker: int, why: str) -> None:
        """Disconnect a broker for one more reason; its session expires after the timeout."""
        if why == CUT:
            self._cut.add(broker)
        self._on_link(broker, lambda link: link.disconnect(why))

    def reconnect(self, broker: int, why: str) -> None:
        """Drop one reason; the broker is connected again if it was the last."""
        if why == CUT:
            self._cut.discard(broker)
        self._on_link(broker, lambda link: link.reconnect(why))

    def abandon(self, broker: int, at_once: bool = False) -> None:
        """Deliver nothing more to a broker; its session expires after the timeout, or at once."""
        self._on_link(broker, lambda link: link.abandon(at_once))

    def expire(self, broker: int) -> None:
        """End the broker's session; on return its ephemeral nodes are gone."""
        if broker in self._links:
            self.run(self._links[broker].expire())

    def _on_link(self, broker: int, do: Callable[["_SessionLink"], None]) -> None:
        async def call() -> None:
            do(self._links[broker])

        if broker in self._links:
            self.run(call())


def _opened(folder: str) -> Tree:
    disk = Mount(Volume())(folder)
    disk.make_dir("")
    return Tree.open(disk, InlineOffload())


class _SessionLink:
    """The tree's side of one broker's session; for the tree's loop only."""

    def __init__(
        self, session: EmbeddedSession, near: asyncio.AbstractEventLoop, timeout_s: float
    ) -> None:
        self.session = session
        self.is_over = False
        self._near = near
        self._timeout_s = timeout_s
        self._disconnects: list[str] = []
        self._undelivered: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._expiry: asyncio.TimerHandle | None = None
        self._on_state: Callable[[SessionState, int], None] = lambda state, session_id: None
        self._tasks: set[asyncio.Task[None]] = set()
        session.listen(self._state_changed)

    def report_states_to(self, on_state: Callable[[SessionState, int], None]) -> None:
        self._on_state = on_state

    def perform(self, path: str, ask: Ask[T], answer: "asyncio.Future[T]") -> None:
        """Make a broker's call, and set its result on the broker's loop."""
        self._keep(self._answer(path, ask, answer))

    async def _answer(self, path: str, ask: Ask[T], answer: "asyncio.Future[T]") -> None:
        try:
            if CUT in self._disconnects:
                raise ConnectionLoss(path, "the test cut the connection")
            result = await ask(self.session)
            if CUT in self._disconnects:
                raise ConnectionLoss(path, "the test cut the connection")
        except (ZnodeError, ValueError) as error:
            self._post(_fail, answer, error)
        else:
            self._post(_succeed, answer, result)

    def deliver(self, callback: Callable[..., None], *news: object) -> None:
        """Call back on the broker's loop, now or after the connection is restored."""
        if CUT in self._disconnects:
            self._undelivered.append((callback, news))
        else:
            self._post(callback, *news)

    def disconnect(self, why: str) -> None:
        if why == CUT and why not in self._disconnects and self._is_connected:
            self._post(self._on_state, SessionState.SUSPENDED, self.session.session_id)
        if not self._disconnects:
            self._expire_later()
        self._disconnects.append(why)

    def reconnect(self, why: str) -> None:
        if why not in self._disconnects:
            return
        self._disconnects = [each for each in self._disconnects if each != why]
        if not self._disconnects and self._expiry is not None:
            self._expiry.cancel()
        if why == CUT:
            if self._is_connected:
                self._post(self._on_state, SessionState.CONNECTED, self.session.session_id)
            missed, self._undelivered = self._undelivered, []
            for callback, news in missed:
                self._post(callback, *news)

    def abandon(self, at_once: bool) -> None:
        self.is_over = True
        if self._expiry is not None:
            self._expiry.cancel()
        if at_once:
            self._keep(self.expire())
        else:
            self._expire_later()

    async def expire(self) -> None:
        # A session that expired while disconnected reports only that.
        self._undelivered.clear()
        await self.session.expire()

    @property
    def _is_connected(self) -> bool:
        return self.session.state is SessionState.CONNECTED

    def _state_changed(self, state: SessionState) -> None:
        self.deliver(self._on_state, state, self.session.session_id)

    def _expire_later(self) -> None:
        self._expiry = asyncio.get_running_loop().call_later(
            self._timeout_s, lambda: self._keep(self.expire())
        )

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _post(self, callback: Callable[..., None], *news: Any) -> None:
        if not self.is_over:
            self._near.call_soon_threadsafe(callback, *news)


def _succeed(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[T]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


@dataclass(frozen=True, slots=True)
class _RemoteWatch:
    """A broker's watch, called on its loop; equal to another of the same watch."""

    link: _SessionLink
    watch: Watch

    def __call__(self, event: WatchEvent) -> None:
        self.link.deliver(self.watch, event)


class BridgedSession(RelayedSession):
    """A broker's side of its session: Coordination over the link to the tree's thread."""

    def __init__(
        self, link: _SessionLink, far: asyncio.AbstractEventLoop, near: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(link.session.session_id)
        self._link = link
        self._tree_loop = far
        self._near = near
        link.report_states_to(self._on_state)

    async def renew(self) -> None:
        await self._ask("/", _renew)

    async def close(self) -> None:
        self._listeners.clear()
        await self._ask("/", EmbeddedSession.close)
        self._state = SessionState.EXPIRED

    async def _ask(self, path: str, ask: Ask[T]) -> T:
        if self._link.is_over:
            raise ConnectionLoss(path, "the broker was killed")
        answer: asyncio.Future[T] = self._near.create_future()
        self._tree_loop.call_soon_threadsafe(partial(self._link.perform, path, ask, answer))
        return await answer

    def _relayed(self, watch: Watch) -> Watch:
        return _RemoteWatch(self._link, watch)

    def _on_state(self, state: SessionState, session_id: int) -> None:
        self._state, self._id = state, session_id
        for listener in list(self._listeners):
            listener(state)


async def _renew(session: EmbeddedSession) -> None:
    await session.renew()
    # A read comes after the state change: the broker then knows its new session.
    await session.exists("/")
