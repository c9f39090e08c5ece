"""The acceptor: thousands of clients at once are served soon, and nobody else waits for them."""

import asyncio
import logging
import os
import resource
import selectors
import socket
from pathlib import Path
from time import perf_counter

import pytest

from barnabas.server.network import acceptor, socket_server
from barnabas.server.network.acceptor import ACCEPTS_IN_A_TURN, Acceptor
from tests.server.raw import Insight, api_versions, on_uvloop, until, with_broker
from tests.support.broker import BrokerProcess
from tests.support.waiting import until as wait_until

CLIENTS = 3_000


def bound() -> socket.socket:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    return listening


def connect_all(address: tuple[str, int], count: int) -> list[socket.socket]:
    """Begin to connect, without waiting for any."""
    clients = [socket.socket() for _ in range(count)]
    for client in clients:
        client.setblocking(False)
        client.connect_ex(address)
    return clients


def test_a_turn_of_the_loop_accepts_no_more_than_a_few() -> None:
    async def scenario() -> None:
        accepted: list[asyncio.Protocol] = []

        def new_connection() -> asyncio.Protocol:
            accepted.append(asyncio.Protocol())
            return accepted[-1]

        listening = bound()
        accepting = Acceptor(listening, new_connection)
        accepting.start(100)
        clients = connect_all(listening.getsockname(), 3 * ACCEPTS_IN_A_TURN)
        before = 0
        while len(accepted) < len(clients):
            await asyncio.sleep(0)
            assert len(accepted) - before <= 2 * ACCEPTS_IN_A_TURN
            before = len(accepted)
        accepting.close()
        for client in clients:
            client.close()
        listening.close()

    on_uvloop(scenario())


def test_a_broker_without_a_free_descriptor_accepts_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "AGAIN_AFTER_SECONDS", 0.01)

    async def scenario() -> None:
        made: list[asyncio.Protocol] = []

        def new_connection() -> asyncio.Protocol:
            made.append(asyncio.Protocol())
            return made[-1]

        listening = bound()
        accepting = Acceptor(listening, new_connection)
        accepting.start(100)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        client = socket.socket()
        spare = os.open(os.devnull, os.O_RDONLY)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, before[1]))
        try:
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
            await until(lambda: "connections not accepted" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            os.close(spare)
        await until(lambda: made)
        accepting.close()
        client.close()
        listening.close()

    on_uvloop(scenario())


def test_one_line_says_that_the_kernel_limits_the_backlog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(socket_server, "allowed_backlog", lambda _: 128)
    caplog.set_level(logging.INFO)

    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        await client.ask(api_versions())

    with_broker(tmp_path, scenario)
    (line,) = [each for each in caplog.messages if "backlog" in each]
    assert line.endswith("is limited to net.core.somaxconn=128")


def served_after(broker: BrokerProcess, count: int) -> float:
    """Connect so many clients at once; returns when the last has a response to its request."""
    began, waiting = perf_counter(), selectors.DefaultSelector()
    clients = connect_all(("127.0.0.1", broker.port), count)
    for client in clients:
        waiting.register(client, selectors.EVENT_WRITE)
    served = 0
    while served < count and perf_counter() - began < 60:
        for key, event in waiting.select(1):
            ready = key.fileobj
            assert isinstance(ready, socket.socket)
            if event & selectors.EVENT_WRITE:
                ready.send(api_versions())
                waiting.modify(ready, selectors.EVENT_READ)
            else:
                assert ready.recv(4096)
                waiting.unregister(ready)
                served += 1
    waiting.close()
    for client in clients:
        client.close()
    assert served == count
    return perf_counter() - began


def resident(broker: BrokerProcess) -> int:
    pages = int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_thousands_of_clients_that_connect_at_once_are_served_and_their_memory_is_returned(
    tmp_path: Path,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CLIENTS + 100:
        pytest.skip(f"only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        # 3 s on a quiet machine. With a backlog of 50 it is nearly a minute.
        before = resident(broker)
        assert served_after(broker, CLIENTS) < 15
        # They took some 55 MB.
        wait_until(lambda: resident(broker) - before < 25 * 1024 * 1024, "memory to be returned")
    finally:
        broker.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
