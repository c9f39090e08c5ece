"""Waiting for a broker's ZooKeeper heartbeat."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.bench.clusters.waiting import WaitTimedOut
from barnabas.bench.compare.compare_sessions import wait_for_sign_of_life

DUMP = """SessionTracker dump:
Session Sets (1)/(2):
2 expire at Mon Nov 16 15:48:54 UTC 2026:
\t0x100036f4afe0001
\t0x100036f4afe0002
ephemeral nodes dump:
Sessions with Ephemerals (2):
0x100036f4afe0001:
\t/here/controller
\t/here/brokers/ids/1
0x100036f4afe0002:
\t/here/brokers/ids/2
"""
CONNECTIONS = """ /127.0.0.1:41572[1](queued=0,recved={first},sent=67,sid=0x100036f4afe0001,to=60)
 /127.0.0.1:41580[0](queued=0,recved=1,sent=0)
 /127.0.0.1:41576[1](queued=0,recved={second},sent=34,sid=0x100036f4afe0002,to=60)

"""


class Told:
    """A ZooKeeper that answers words; of its two sessions it has heard so often at each asking."""

    def __init__(self, first: list[int], second: list[int]) -> None:
        self.first, self.second = first, second
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}/here"

    def close(self) -> None:
        socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()

    def _answer(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                match connection.recv(4):
                    case b"dump":
                        connection.sendall(DUMP.encode())
                    case b"cons":
                        heard = {"first": self.first.pop(0), "second": self.second.pop(0)}
                        connection.sendall(CONNECTIONS.format(**heard).encode())
                    case _:
                        return


@pytest.fixture
def zookeeper() -> Iterator[Told]:
    told = Told([7, 8, 9, 10, 11], [5, 5, 5, 6, 7])
    yield told
    told.close()


def admin_of(zookeeper: Told) -> Any:
    """A client whose brokers all say that this is their ZooKeeper."""

    def describe(resources: list[Any], **_: float) -> dict[Any, Future[Any]]:
        told: Future[Any] = Future()
        told.set_result({"zookeeper.connect": SimpleNamespace(value=zookeeper.address)})
        return dict.fromkeys(resources, told)

    return SimpleNamespace(describe_configs=describe)


def test_only_heartbeats_of_that_broker_count(zookeeper: Told) -> None:
    wait_for_sign_of_life(admin_of(zookeeper), 2)
    assert zookeeper.second == [7]


def test_an_unregistered_broker_is_reported(zookeeper: Told) -> None:
    with pytest.raises(WaitTimedOut, match="/here/brokers/ids/3 is not in ZooKeeper"):
        wait_for_sign_of_life(admin_of(zookeeper), 3)
