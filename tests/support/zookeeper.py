"""A real ZooKeeper for tests: one shared server, with a chroot for each test."""

import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from barnabas.base.errors import ConfigError
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer

# A command that follows ends with its parent, even if that is killed.
DIES_WITH_US: Final = (
    sys.executable,
    "-c",
    """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
os.execvp(sys.argv[1], sys.argv[1:])
""",
)
_numbers: Final = count(1)


def zookeeper_server(folder: Path) -> ZooKeeperServer:
    """A started server that ends with this process. Skips the test if none is available."""
    server = ZooKeeperServer(folder, launcher=DIES_WITH_US)
    try:
        server.start()
    except ConfigError as missing:
        if "needs" not in str(missing):
            raise
        pytest.skip(str(missing))
    return server


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One server for all tests that leave it running; each uses its own chroot."""
    server = zookeeper_server(tmp_path_factory.mktemp("zookeeper"))
    yield server
    server.stop()


@pytest.fixture
def zookeeper_chroot(zookeeper: ZooKeeperServer) -> str:
    """An address with a chroot of the test's own: 127.0.0.1:port/test-7. It does not exist yet."""
    return f"{zookeeper.address}/test-{next(_numbers)}"


@pytest.fixture
def fresh_zookeeper(tmp_path: Path) -> Iterator[Callable[[], ZooKeeperServer]]:
    """Start a separate server, which the test may pause, kill and restart."""
    mine: list[ZooKeeperServer] = []

    def start() -> ZooKeeperServer:
        mine.append(zookeeper_server(tmp_path / f"zookeeper-{len(mine)}"))
        return mine[-1]

    yield start
    for server in mine:
        server.kill()
