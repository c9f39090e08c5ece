"""A whole broker on a loop of its own thread, so that tests may wait for its answers."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from barnabas.base.clock import SystemClock
from barnabas.base.offload import ThreadOffload
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.disk.disk import Disk, RealDisk
from barnabas.server.compose import Environment, RunningBroker, start
from tests.server.admin.client import Client


def until(
    condition: Callable[[], object], what: str = "the condition", limit_s: float = 15
) -> None:
    """Wait for a condition; fails with `what` was awaited."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


class HastyDisk(RealDisk):
    """A real log directory without fsyncs: no test here cuts the power."""

    def replace(
        self, path: str, data: bytes, /, *, sync: bool = True, private: bool = False
    ) -> None:
        super().replace(path, data, sync=False, private=private)

    def sync(self, path: str = "", /) -> None:
        pass


class Running:
    """The view that a test has of a running broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, broker: RunningBroker) -> None:
        self.running = broker
        self._loop = loop

    @property
    def port(self) -> int:
        return self.running.endpoints[0].port

    def client(self) -> Client:
        return Client("127.0.0.1", self.port)

    def failure(self) -> BaseException | None:
        """Why the broker wants to stop, if it does."""
        failed = self.running.failed
        return failed.result() if failed.done() else None


@contextmanager
def broker(
    *folders: Path, disk: Callable[[str], Disk] = HastyDisk, **properties: str
) -> Iterator[Running]:
    """A broker on these folders, stopped cleanly at the end; properties with underscores."""
    config = BrokerConfig.from_properties(
        {
            "broker.id": "0",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": ",".join(map(str, folders)),
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    executor = ThreadPoolExecutor()
    environment = Environment(SystemClock(), Random(), ThreadOffload(executor), disk)
    try:
        running = asyncio.run_coroutine_threadsafe(start(config, environment), loop).result(60)
        try:
            yield Running(loop, running)
        finally:
            asyncio.run_coroutine_threadsafe(running.stop(), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        executor.shutdown()
