"""An event loop in virtual time for many hosts: each can stop for a while or for ever, alone.

Theory of operation. Nothing waits for real: when no callback is ready, time jumps to the next
timer. Callbacks run in the order they became ready, timers of one instant in the order they were
set, so a run is decided by what happens in it and by nothing else. Every callback belongs to the
host in whose context it was scheduled (`HOST`), which tasks and callbacks hand down to those they
schedule. A host that crashed never runs again: its tasks stay where they were, referenced until
the loop is closed, so that no `finally` of theirs acts on a world that has gone on. A paused host
finds all that came meanwhile when it goes on.
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

# Tasks that only ever yield to one another must not stop time.
TURN_S: Final = 1e-6
# How often a coroutine that is to be dropped may await something instead.
MOST_WISHES: Final = 20
# Clocks of real machines do not begin at 0.
BEGIN_S: Final = 1_000.0


class Host:
    """One life of a machine; the life after a crash is another object of the same name."""

    __slots__ = ("context", "held", "is_dead", "is_paused", "name", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_paused = False
        self.held: list[asyncio.Handle] = []
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        # What is called from outside, as what comes over the network, runs in this.
        self.context = Context()
        self.context.run(HOST.set, self)

    def __repr__(self) -> str:
        return self.name


# Where the code that runs now lives; None is the simulation itself.
HOST: ContextVar[Host | None] = ContextVar("HOST", default=None)

_Ready = tuple[Host | None, asyncio.Handle]
_Timed = tuple[float, int, Host | None, asyncio.Handle]


class ConnectionsBetweenHosts(Protocol):
    """The network, as the loop knows it."""

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
    """The loop of a whole simulated world; `network` is to be set before anyone connects."""

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
        # Whose callback runs now, for whoever handles exceptions.
        self.running_host: Host | None = None

    def time(self) -> float:
        return self._now

    # -- hosts ---------------------------------------------------------------

    def boot(self, name: str) -> Host:
        """Begin the first or the next life of a host; the one before has crashed or ended."""
        self._hosts[name] = host = Host(name)
        return host

    def host(self, name: str) -> Host | None:
        """The present life of a host, also if that is over; None if it never lived."""
        return self._hosts.get(name)

    def crash(self, name: str) -> None:
        """Let nothing of this life of the host ever run again."""
        host = self._hosts[name]
        host.is_dead = True
        host.held.clear()
        # Not those of others: one of which nobody holds on to tells that it failed when it goes.
        self._buried += (task for task in host.tasks if not task.done())

    def pause(self, name: str) -> None:
        self._hosts[name].is_paused = True

    def resume(self, name: str) -> None:
        """Run all that has become due since the host was paused, in its order."""
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
        """There are no threads here."""
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

    def create_task(  # type: ignore[override]  # of coroutines only: nobody has others
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

    # As in asyncio, with what the brokers and their clients use of it.
    async def create_server(  # type: ignore[override]  # no option that nobody uses
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = 100,
        start_serving: bool = True,
    ) -> asyncio.AbstractServer:
        return await self.network.listen(protocol_factory, host, port, start_serving)

    async def create_connection(  # type: ignore[override]  # no option that nobody uses
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        return await self.network.connect(protocol_factory, host, port)

    def _run_once(self) -> None:
        """One turn: all that is ready now, after time has jumped to when something is."""
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
        """End the world: what still waits in it is dropped without a word."""
        if self.is_closed():
            return
        self.set_exception_handler(lambda _, context: None)
        heard, sys.unraisablehook = sys.unraisablehook, lambda _: None
        # What ends may begin something, which asyncio would make a loop for that nobody closes.
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
    """End a coroutine where it stands; it may want to wait for something first, or fail."""
    for _ in range(MOST_WISHES):
        with suppress(Exception):
            work.close()
            return
