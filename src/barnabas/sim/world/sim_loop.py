"""An event loop in virtual time for many hosts, each of which can be paused or crashed.

Theory of operation. Nothing waits in real time: when no callback is ready, time jumps to the next
timer. Callbacks run in the order they became ready, and timers of one instant in the order they
were set, so a run is deterministic. Every callback belongs to the host in whose context it was
scheduled (`HOST`); tasks and callbacks pass their host on to what they schedule. A crashed host
never runs again: its tasks stay suspended, referenced until the loop is closed, so that no
`finally` of theirs changes the world after the crash. A paused host runs everything that became
due meanwhile when it is resumed.
"""

import asyncio
import gc
import heapq
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, cast
from weakref import WeakSet

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")

# Time advances with every turn, even if tasks only yield to each other.
TURN_S: Final = 1e-6
# How often a coroutine may await again while it is being closed.
MOST_WISHES: Final = 20
# Clocks of real machines do not start at 0.
BEGIN_S: Final = 1_000.0


class Host:
    """One boot of a machine; after a crash there is another object of the same name."""

    __slots__ = ("context", "held", "is_dead", "is_paused", "name", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_paused = False
        self.held: list[asyncio.Handle] = []
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        # Callbacks from outside, such as network packets, run in this context.
        self.context = Context()
        self.context.run(HOST.set, self)

    def __repr__(self) -> str:
        return self.name


# The host of the running code; None for the simulation itself.
HOST: ContextVar[Host | None] = ContextVar("HOST", default=None)

_Ready = tuple[Host | None, asyncio.Handle]
_Timed = tuple[float, int, Host | None, asyncio.Handle]


class ConnectionsBetweenHosts(Protocol):
    """The network, as the loop uses it."""

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        name: str,
        port: int,
        start_serving: bool,
    ) -> asyncio.AbstractServer: ...

    async def connect(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], name: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...


class SimLoop(asyncio.BaseEventLoop):
    """The loop of a simulated world; set `network` before the first connection."""

    network: ConnectionsBetweenHosts

    def __init__(self) -> None:
        super().__init__()
        self._now = BEGIN_S
        self._due: deque[_Ready] = deque()
        self._timers: list[_Timed] = []
        self._timers_set = 0
        self._hosts: dict[str, Host] = {}
        self._buried: list[asyncio.Task[Any]] = []
        self.steps = 0
        # The host of the running callback, for the exception handler.
        self.running_host: Host | None = None

    def time(self) -> float:
        return self._now

    # -- hosts ---------------------------------------------------------------

    def boot(self, name: str) -> Host:
        """Boot a host; a previous one of the name has crashed or ended."""
        self._hosts[name] = host = Host(name)
        return host

    def host(self, name: str) -> Host | None:
        """The latest boot of a host, even if it has ended; None if there was none."""
        return self._hosts.get(name)

    def crash(self, name: str) -> None:
        """Never run anything of this host again."""
        host = self._hosts[name]
        host.is_dead = True
        host.held.clear()
        # Unfinished tasks only: a failed task reports its exception when it is collected.
        self._buried += (task for task in host.tasks if not task.done())

    def pause(self, name: str) -> None:
        self._hosts[name].is_paused = True

    def resume(self, name: str) -> None:
        """Run everything that became due since the pause, in order."""
        host = self._hosts[name]
        host.is_paused = False
        self._due.extend((host, handle) for handle in host.held)
        host.held.clear()

    def spawn(self, host: Host | None, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that runs on a host."""
        context = Context() if host is None else host.context.copy()
        return self.create_task(work, context=context)

    # -- asyncio's side ------------------------------------------------------

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        host = HOST.get() if context is None else context.get(HOST)
        handle = asyncio.Handle(callback, args, self, context)
        self._due.append((host, handle))
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """As `call_soon`: there are no threads."""
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        host = HOST.get() if context is None else context.get(HOST)
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_set += 1
        heapq.heappush(self._timers, (when, self._timers_set, host, handle))
        return handle

    def create_task(  # type: ignore[override]  # for coroutines only
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = super().create_task(coro, name=name, context=context)
        host = HOST.get() if context is None else context.get(HOST)
        if host is not None:
            host.tasks.add(task)
        return task

    # As in asyncio, with the options that brokers and clients use.
    async def create_server(  # type: ignore[override]  # only the used options
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = 100,
        start_serving: bool = True,
    ) -> asyncio.AbstractServer:
        return await self.network.listen(protocol_factory, host, port, start_serving)

    async def create_connection(  # type: ignore[override]  # only the used options
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        return await self.network.connect(protocol_factory, host, port)

    def _run_once(self) -> None:
        """Jump to the next timer if nothing is ready, then run everything that is ready."""
        due, timers = self._due, self._timers
        self._now += TURN_S
        while timers and (timers[0][0] <= self._now or not due):
            when, _, host, handle = heapq.heappop(timers)
            if not handle.cancelled():
                self._now = max(self._now, when)
                due.append((host, handle))
        if not due:
            raise RuntimeError("the simulation has nothing left to do")
        for _ in range(len(due)):
            host, handle = due.popleft()
            if handle.cancelled():
                continue
            if host is not None and (host.is_dead or host.is_paused):
                if not host.is_dead:
                    host.held.append(handle)
                continue
            self.steps += 1
            self.running_host = host
            handle._run()
        self.running_host = None

    def close(self) -> None:
        """Drop all pending tasks and callbacks silently."""
        if self.is_closed():
            return
        self.set_exception_handler(lambda _, context: None)
        heard, sys.unraisablehook = sys.unraisablehook, lambda _: None
        # A closing coroutine may use asyncio, which must not create another loop for it.
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            self._drop_all()
            for held in (self._buried, self._due, self._timers, self._hosts):
                held.clear()
            gc.collect()
        finally:
            asyncio._set_running_loop(running)
            sys.unraisablehook = heard
        super().close()

    def _drop_all(self) -> None:
        dropped: set[asyncio.Task[Any]] = set()
        while left := {*self._buried, *asyncio.all_tasks(self)} - dropped:
            for task in left:
                cast(Any, task)._log_destroy_pending = False
                _drop(cast(Coroutine[Any, Any, Any], task.get_coro()))
            dropped |= left

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, event_list: list[Any]) -> None:
        pass


def _drop(work: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine, even if it awaits again or fails."""
    for _ in range(MOST_WISHES):
        with suppress(Exception):
            work.close()
            return
