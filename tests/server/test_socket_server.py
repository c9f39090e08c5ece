"""Listeners: who may connect, how many, for how long, and what is left of them."""

import asyncio
import logging
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.base.errors import ConfigError
from barnabas.server.network.connection_quotas import NEAR_RECEIVE_BUFFER, Limits
from barnabas.server.network.connection_state import ConnectionState
from tests.server.raw import (
    Insight,
    api_versions,
    batch,
    broker,
    fetch,
    on_uvloop,
    produce,
    until,
    with_broker,
)


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [r.getMessage() for r in caplog.records if r.name == "barnabas.connection"]
    return [line.partition("why=")[2] for line in lines]


def test_connections_have_the_buffers_that_the_properties_ask_for(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        await client.ask(api_versions())
        (connection,) = insight.connections._idle_watches
        assert connection._writer is not None
        taken = connection._writer.transport.get_extra_info("socket")
        # Linux doubles the value, for what it keeps beside the bytes.
        sizes = [
            taken.getsockopt(socket.SOL_SOCKET, option)
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)
        ]
        assert sizes in ([60_000, 80_000], [30_000, 40_000])

    with_broker(
        tmp_path, scenario, socket_send_buffer_bytes=30_000, socket_receive_buffer_bytes=40_000
    )


def test_buffers_of_minus_one_are_left_to_the_system() -> None:
    limits = Limits(1, 1, 1, 1, socket_send_buffer_bytes=-1, socket_receive_buffer_bytes=-1)
    assert limits.socket_options("127.0.0.1", has_tls=False) == {}
    assert limits.socket_options("0.0.0.0", has_tls=True) == {}


def test_a_listener_with_tls_that_only_this_machine_reaches_has_a_small_receive_buffer() -> None:
    limits = Limits(1, 1, 1, 1, socket_send_buffer_bytes=-1, socket_receive_buffer_bytes=-1)
    for address in ("127.0.0.1", "::1"):
        chosen = limits.socket_options(address, has_tls=True)
        assert chosen == {socket.SO_RCVBUF: NEAR_RECEIVE_BUFFER}
    limits = replace(limits, socket_receive_buffer_bytes=102_400)
    chosen = limits.socket_options("127.0.0.1", has_tls=True)
    assert chosen == {socket.SO_RCVBUF: 102_400}


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        idle, active, waiting = [await insight.connect() for _ in range(3)]
        await waiting.send(fetch(("orders", 0, 0), max_wait_ms=60_000))
        closed = asyncio.ensure_future(idle.is_closed())
        while not closed.done():
            await active.ask(api_versions())
            await asyncio.sleep(0.01)
        assert await closed
        assert len(insight.connections) == 2
        await active.ask(produce(("orders", 0, batch())))
        await waiting.receive()
        # Once it has its answer it is as idle as any.
        assert await waiting.is_closed()

    with_broker(tmp_path, scenario, connections_max_idle_ms=150)
    assert all("connections.max.idle.ms" in reason for reason in reasons(caplog))


def test_an_idle_client_that_never_reads_its_last_answers_is_cut_off(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        await (await insight.connect()).ask(produce(("orders", 0, batch(bytes(900_000)))))
        deaf = await insight.connect(limit=1024)
        deaf.stop_reading()
        deaf.writer.write(b"".join(fetch(("orders", 0, 0)) for _ in range(50)))
        await until(
            lambda: any(
                c._state is ConnectionState.BLOCKED for c in insight.connections._idle_watches
            )
        )
        await until(lambda: len(insight.connections) == 0)
        deaf.vanish()

    with_broker(tmp_path, scenario, connections_max_idle_ms=150)


def test_one_connection_too_many_is_closed_and_makes_no_difference(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(insight: Insight) -> None:
        first, second = await insight.connect(), await insight.connect()
        await first.ask(api_versions())
        await second.ask(api_versions())
        third = await insight.connect()
        assert await third.is_closed()
        await until(lambda: len(insight.connections) == 2)
        await first.close()
        await until(lambda: len(insight.connections) == 1)
        await (await insight.connect()).ask(api_versions())

    with_broker(tmp_path, scenario, max_connections=2)
    assert reasons(caplog) == ["max.connections=2 is reached"]


def test_one_address_may_have_only_so_many_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(insight: Insight) -> None:
        await (await insight.connect()).ask(api_versions())
        assert await (await insight.connect()).is_closed()

    with_broker(tmp_path, scenario, max_connections_per_ip=1)
    assert reasons(caplog) == ["max.connections.per.ip=1 is reached for 127.0.0.1"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_override_for_one_host_goes_before_the_general_limit(tmp_path: Path, host: str) -> None:
    async def scenario(insight: Insight) -> None:
        for _ in range(3):
            await (await insight.connect()).ask(api_versions())
        assert await (await insight.connect()).is_closed()

    properties = {"max.connections.per.ip.overrides": f"{host}:3"}
    with_broker(tmp_path, scenario, max_connections_per_ip=1, **properties)


def test_an_override_for_an_unknown_host_is_refused_at_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        properties = {"max.connections.per.ip.overrides": "no.such.host.invalid:3"}
        with pytest.raises(ConfigError, match=r"no\.such\.host\.invalid"):
            async with broker(tmp_path, **properties):
                pass

    on_uvloop(scenario())


def test_an_address_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        host, port = insight.address
        with pytest.raises(ConfigError, match=f"cannot listen on .*{port}"):
            async with broker(tmp_path / "other", listeners=f"PLAINTEXT://{host}:{port}"):
                pass

    with_broker(tmp_path / "one", scenario)


def test_many_connections_come_and_go_and_leave_nothing(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        for _ in range(5):
            clients = [await insight.connect() for _ in range(60)]
            for client in clients:
                await client.ask(api_versions())
            for client in clients[::2]:
                client.vanish()
            for client in clients[1::2]:
                await client.close()
        await insight.is_at_rest()
        assert not insight.state.quotas._per_ip

    with_broker(tmp_path, scenario)
