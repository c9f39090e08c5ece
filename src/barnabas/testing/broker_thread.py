"""A broker under test, on its own thread and event loop: started, stopped, killed or paused.

A kill first takes the broker's disk, sockets and session away. Only then its tasks are cancelled,
so that nothing they still do is visible outside.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from barnabas.base.clock import SystemClock
from barnabas.base.errors import BarnabasError
from barnabas.base.offload import ThreadOffload
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.server.broker import Broker
from barnabas.server.compose import Environment, RunningBroker, start
from barnabas.testing.cuttable_network import BrokerLoop, CuttableNetwork
from barnabas.testing.failing_disk import Mount, Volume
from barnabas.testing.request_faults import RequestFaults
from barnabas.testing.shared_tree import SharedTree

log = logging.getLogger("barnabas.testing")

T = TypeVar("T")

# How often the remaining tasks of a killed broker are cancelled.
MOST_CANCELLATIONS: Final = 50
LOOK_AGAIN_S: Final = 0.05
_DISK_THREADS: Final = 2


@dataclass(frozen=True, slots=True)
class ClusterParts:
    """The parts that the brokers of a cluster share."""

    tree: SharedTree
    network: CuttableNetwork
    faults: RequestFaults


class BrokerThread:
    """A broker from its start to its end; a restart makes another one.

    All methods are for the test's thread, and return when they have taken effect.
    """

    def __init__(
        self, broker: int, config: BrokerConfig, volume: Volume, parts: ClusterParts
    ) -> None:
        self._broker = broker
        self._config = config
        self._parts = parts
        self._mount = Mount(volume)
        self._loop = BrokerLoop(broker, parts.network)
        self._ready: Future[RunningBroker] = Future()
        self._stop = asyncio.Event()
        self._gate = threading.Event()
        self._gate.set()
        self._is_doomed = False
        self._main: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name=f"barnabas-{broker}", daemon=True)
        self.failure: BaseException | None = None

    @property
    def is_alive(self) -> bool:
        """True if it runs and has not failed."""
        return self._thread.is_alive() and self.failure is None

    @property
    def is_paused(self) -> bool:
        return not self._gate.is_set()

    def launch(self) -> None:
        """Start the thread; `wait_ready` returns when the broker serves."""
        self._thread.start()

    def wait_ready(self) -> None:
        """Raises what kept the broker from starting."""
        self._ready.result()

    def stop(self) -> None:
        """Stop as on SIGTERM: hand leaderships over, flush, close."""
        self._call_soon(self._stop.set)
        self._thread.join()

    def kill(self) -> None:
        """End as on SIGKILL."""
        self._is_doomed = True
        self._call_soon(self._die)
        self._gate.set()
        self._thread.join()

    def wait_ended(self) -> None:
        """Return when the thread has ended."""
        self._thread.join()

    def pause(self) -> None:
        """Freeze as on SIGSTOP; sockets stay open and silent."""
        is_paused = threading.Event()
        self._gate.clear()

        def wait() -> None:
            is_paused.set()
            self._gate.wait()
            if self._is_doomed:
                self._die()

        self._call_soon(wait)
        while not is_paused.wait(LOOK_AGAIN_S) and self.is_alive:
            continue

    def resume(self) -> None:
        self._gate.set()

    def drop(self, other: int | str) -> None:
        """Reset the connections to another party; a paused broker does it later."""
        self._call_soon(self._loop.drop, other)

    def ask(self, question: Callable[[Broker], T]) -> "Future[T]":
        """Call `question` with the broker on its own loop."""
        answer: Future[T] = Future()
        running = self._ready.result()
        self._call_soon(lambda: answer.set_result(question(running.broker)))
        return answer

    def _call_soon(self, callback: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop has closed meanwhile
            self._loop.call_soon_threadsafe(callback, *arguments)

    # -- on the broker's thread ----------------------------------------------

    def _run(self) -> None:
        executor = ThreadPoolExecutor(_DISK_THREADS, f"barnabas-{self._broker}-disk")
        self._main = self._loop.create_task(self._live(ThreadOffload(executor)))
        try:
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._main)
        finally:
            self._fail_start(BarnabasError(f"broker {self._broker} ended while it started"))
            self._parts.tree.abandon(self._broker)
            self._cancel_the_rest()
            executor.shutdown()
            self._loop.close()
            self._mount.end()

    async def _live(self, offload: ThreadOffload) -> None:
        parts = self._parts
        environment = Environment(
            SystemClock(),
            Random(),
            offload,
            self._mount,
            coordination=lambda: parts.tree.session(self._broker),
            intercept=parts.faults.of(self._broker),
        )
        try:
            running = await start(self._config, environment)
        except BarnabasError as error:
            self._fail_start(error)
            return
        self._ready.set_result(running)
        running.failed.add_done_callback(lambda _: self._stop.set())
        await self._stop.wait()
        if running.failed.done():
            self.failure = running.failed.result()
            log.error("broker failed, stopping broker=%d: %s", self._broker, self.failure)
        await running.stop()

    def _fail_start(self, error: BaseException) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)

    def _die(self) -> None:
        self._loop.set_exception_handler(lambda loop, context: None)
        self._mount.end()
        self._parts.tree.abandon(self._broker)
        self._loop.sever()
        if self._main is not None:
            self._main.cancel()

    def _cancel_the_rest(self) -> None:
        for _ in range(MOST_CANCELLATIONS):
            tasks = asyncio.all_tasks(self._loop)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=0.1))
        # Aborted transports close in the next turns of the loop.
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(asyncio.sleep(0))
