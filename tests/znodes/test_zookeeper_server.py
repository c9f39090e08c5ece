"""The local ZooKeeper server: start, stop, kill, pause, and restart with its port and data."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from barnabas.base.errors import ConfigError
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer


@contextmanager
def connected(server: ZooKeeperServer) -> Iterator[Any]:
    untyped: Any = KazooClient
    client = untyped(server.address)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_it_restarts_with_its_data_on_its_port_after_stop_and_kill(
    fresh_zookeeper: Callable[[], ZooKeeperServer],
) -> None:
    server = fresh_zookeeper()
    address = server.address
    with connected(server) as client:
        client.create("/a", b"kept")
    for end in (server.kill, server.stop):
        pid = server.pid
        end()
        assert not server.is_running
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        server.start()
        assert server.address == address
        with connected(server) as client:
            assert client.get("/a")[0] == b"kept"
    server.stop()
    server.stop()


def test_a_paused_server_can_be_resumed_and_stopped(
    fresh_zookeeper: Callable[[], ZooKeeperServer],
) -> None:
    server = fresh_zookeeper()
    server.pause()
    host, _, port = server.address.partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"ruok")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(4)
        server.resume()
        connection.settimeout(10)
        assert connection.recv(4) == b"imok"
    server.pause()
    server.stop()


def test_a_server_that_does_not_start_names_its_log_and_leaves_nothing_running(
    tmp_path: Path,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = ZooKeeperServer(tmp_path / "zk", taken.getsockname()[1])
        with pytest.raises(ConfigError, match=r"did not start: see .*zookeeper\.log$"):
            server.start()
    assert not server.is_running
    assert "Address already in use" in server.log_path.read_text()


def test_without_java_or_its_jars_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ZooKeeperServer(tmp_path / "zk")
    with monkeypatch.context() as patched:
        patched.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ConfigError, match=r"needs the jars of PySpark: run pip install"):
            server.start()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="needs Java"):
        server.start()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_server_of_the_tests_ends_with_them(tmp_path: Path) -> None:
    script = (
        "import pathlib, signal, sys\n"
        "from tests.support.zookeeper import zookeeper_server\n"
        "print(zookeeper_server(pathlib.Path(sys.argv[1])).pid, flush=True)\n"
        "signal.pause()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        server = os.pidfd_open(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    # A pidfd is readable once its process has ended.
    ended, _, _ = select.select([server], [], [], 10)
    os.close(server)
    assert ended
