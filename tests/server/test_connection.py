"""A connection: frames however they arrive, answers in order, and memory within bounds."""

import asyncio
import logging
import socket
import struct
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from barnabas.server.metrics.request_statistics import RequestStatistics
from barnabas.server.network import sending
from barnabas.server.network.connection import Connection
from barnabas.server.network.connection_state import ConnectionState
from barnabas.server.network.receive_buffer import (
    FIRST_BUFFER,
    KEPT_BUFFER,
    KEPT_FOR_SMALL,
    READ_AHEAD,
)
from barnabas.server.network.request_memory import RequestMemory
from barnabas.server.requests.frame_run import FrameRun
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import Buffer
from tests.server.raw import (
    SOON,
    Insight,
    RawClient,
    api_versions,
    batch,
    broker,
    fetch,
    frame,
    on_uvloop,
    produce,
    until,
    with_broker,
)
from tests.support.recorded_failures import RecordedFailures

MEGABYTE = 2**20


def connections(insight: Insight) -> list[Connection]:
    return list(insight.connections._idle_watches)


def buffered(connection: Connection) -> int:
    return connection._received.granted


def closings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The log lines about connections; anything worse fails the test."""
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
    return [
        record.getMessage() for record in caplog.records if record.name == "barnabas.connection"
    ]


# -- frames, however they arrive ---------------------------------------------


def test_a_request_may_come_byte_by_byte(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        client.writer.transport.get_extra_info("socket").setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )
        for byte in produce(("orders", 0, batch())):
            await client.send(bytes([byte]))
            await asyncio.sleep(0)
        await client.receive()
        assert insight.leader("orders").log.log_end_offset == 1

    with_broker(tmp_path, scenario)


def test_frames_may_be_split_at_every_position(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        frames = api_versions(1) + frame(ApiKey.METADATA, 12, b"\x01\0\0\0", 2) + api_versions(3)
        for cut in range(1, len(frames)):
            await client.send(frames[:cut])
            await asyncio.sleep(0)
            await client.send(frames[cut:])
            assert [await client.correlation_id() for _ in range(3)] == [1, 2, 3]

    with_broker(tmp_path, scenario)


def test_many_small_frames_in_one_packet_are_answered_in_order(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        await client.send(
            b"".join(produce(("orders", 0, batch()), correlation_id=n) for n in range(2000))
        )
        assert [await client.correlation_id() for _ in range(2000)] == list(range(2000))
        assert insight.leader("orders").log.log_end_offset == 2000

    with_broker(tmp_path, scenario)


def test_a_large_request_grows_the_buffer_and_gives_it_back(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", max_message_bytes=str(60 * MEGABYTE))
        client = await insight.connect()
        large = produce(("orders", 0, batch(bytes(50 * MEGABYTE))))
        await client.send(large[: 20 * MEGABYTE])
        (connection,) = connections(insight)
        await until(lambda: buffered(connection) > KEPT_BUFFER)
        # Memory follows what was sent, not what was announced.
        assert buffered(connection) <= 1.2 * 20 * MEGABYTE
        await client.send(large[20 * MEGABYTE :])
        await client.receive()
        assert insight.leader("orders").log.log_end_offset == 1
        assert buffered(connection) <= READ_AHEAD

    with_broker(tmp_path, scenario)


# -- order, and waiting ------------------------------------------------------


@pytest.mark.parametrize("record_bytes", [15_000, 16_500])
def test_requests_in_a_row_that_fill_the_buffer_are_read_many_at_a_time(
    tmp_path: Path, record_bytes: int
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        one = produce(("orders", 0, batch(bytes(record_bytes))))
        client.writer.write(200 * one)
        for _ in range(200):
            await client.receive()
        assert insight.leader("orders").log.log_end_offset == 200
        (connection,) = connections(insight)
        assert 2 * FIRST_BUFFER < buffered(connection) <= READ_AHEAD

    with_broker(tmp_path, scenario)


def test_a_buffer_for_large_requests_is_given_back_when_smaller_ones_follow(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", max_message_bytes=str(2 * MEGABYTE))
        client = await insight.connect()
        (connection,) = connections(insight)
        for _ in range(2):
            await client.ask(produce(("orders", 0, batch(bytes(KEPT_FOR_SMALL)))))
            assert buffered(connection) > KEPT_FOR_SMALL
        await client.ask(api_versions())
        assert buffered(connection) <= READ_AHEAD

    with_broker(tmp_path, scenario)


def test_answers_keep_the_order_of_requests_when_one_of_them_waits(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client, other = await insight.connect(), await insight.connect()
        waiting = fetch(("orders", 0, 0), max_wait_ms=30_000, correlation_id=1)
        await client.send(waiting + b"".join(api_versions(n) for n in range(2, 50)))
        await until(lambda: insight.delayed.waiting == 1)
        # Nobody else waits with it.
        await other.send(api_versions(99))
        assert await other.correlation_id() == 99
        await other.ask(produce(("orders", 0, batch())))
        assert [await client.correlation_id() for _ in range(1, 50)] == list(range(1, 50))

    with_broker(tmp_path, scenario)


def test_several_long_polls_on_one_connection_wait_one_after_the_other(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client, other = await insight.connect(), await insight.connect()
        polls = [fetch(("orders", 0, n), max_wait_ms=30_000, correlation_id=n) for n in range(3)]
        await client.send(b"".join(polls))
        for n in range(3):
            await until(lambda: insight.delayed.waiting == 1)
            await other.ask(produce(("orders", 0, batch())))
            assert await client.correlation_id() == n

    with_broker(tmp_path, scenario)


def test_a_client_that_sends_while_its_request_waits_is_not_read_beyond_its_buffer(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client, other = await insight.connect(), await insight.connect()
        await client.send(fetch(("orders", 0, 0), max_wait_ms=60_000, correlation_id=-1))
        await until(lambda: insight.delayed.waiting == 1)
        behind = [
            produce(("orders", 0, batch(bytes(100_000))), correlation_id=n) for n in range(300)
        ]
        client.writer.write(b"".join(behind))
        waiting = next(one for one in connections(insight) if one.busy)
        await until(lambda: waiting._read_paused)
        assert buffered(waiting) <= READ_AHEAD
        assert insight.leader("orders").log.log_end_offset == 0
        await other.ask(produce(("orders", 0, batch())))
        assert await client.correlation_id() == -1
        assert [await client.correlation_id() for _ in range(300)] == list(range(300))
        assert insight.leader("orders").log.log_end_offset == 301

    with_broker(tmp_path, scenario)


def test_a_frame_announced_while_a_request_waits_is_refused_only_then_and_takes_no_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client, other = await insight.connect(), await insight.connect()
        await client.send(fetch(("orders", 0, 0), max_wait_ms=60_000))
        await until(lambda: insight.delayed.waiting == 1)
        client.writer.write(struct.pack(">i", 2**31 - 1) + bytes(30 * MEGABYTE))
        waiting = next(one for one in connections(insight) if one.busy)
        await until(lambda: waiting._read_paused)
        assert buffered(waiting) <= READ_AHEAD
        await other.ask(produce(("orders", 0, batch())))
        await client.receive()
        assert await client.is_closed()

    with_broker(tmp_path, scenario)
    assert len(closings(caplog)) == 1


async def blocked(insight: Insight, count: int) -> tuple[RawClient, Connection]:
    """A client that asks for the records of `orders` so many times, and reads no response yet."""
    client = await insight.connect(limit=1024)
    client.stop_reading()
    client.writer.write(b"".join(fetch(("orders", 0, 0), correlation_id=n) for n in range(count)))
    slow = next(one for one in connections(insight) if one.port == client.port)
    await until(lambda: slow._state is ConnectionState.BLOCKED and slow._read_paused)
    assert slow._writer is not None
    assert slow._writer.transport.get_write_buffer_size() < 4 * MEGABYTE
    return client, slow


def test_a_client_that_reads_nothing_is_served_nothing_more_until_it_does(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        await (await insight.connect()).ask(produce(("orders", 0, batch(bytes(900_000)))))
        count = 3000
        client, slow = await blocked(insight, count)
        assert buffered(slow) <= READ_AHEAD
        # Nobody else notices.
        await (await insight.connect()).ask(produce(("orders", 0, batch())))
        client.read_again()
        for n in range(100):
            assert await client.correlation_id() == n

    with_broker(tmp_path, scenario)


def test_a_client_that_takes_all_at_once_does_not_keep_others_from_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, count = 900_000, 100
    turns = [0]

    def takes_all(_: int, parts: list[Buffer]) -> int:
        sent = sum(map(len, parts))
        turns[-1] += sent
        return sent

    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        await client.ask(produce(("orders", 0, batch(bytes(size)))))
        monkeypatch.setattr("barnabas.server.network.sending.send_now", takes_all)
        await client.send(fetch(("orders", 0, 0)) * count)
        async with asyncio.timeout(SOON):
            while sum(turns) < size * count:
                await asyncio.sleep(0)
                turns.append(0)
        assert max(turns) < 6 * MEGABYTE

    with_broker(tmp_path, scenario)


def test_small_answers_that_nobody_reads_stop_the_reading_too(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        await (await insight.connect()).ask(produce(("orders", 0, batch(bytes(1000)))))
        count = 15_000
        client, _ = await blocked(insight, count)
        client.read_again()
        size = len(await client.receive()) + 4
        answers = await client.reader.readexactly(size * (count - 1))
        ids = [struct.unpack_from(">i", answers, at + 4)[0] for at in range(0, len(answers), size)]
        assert ids == list(range(1, count))

    with_broker(tmp_path, scenario)


# -- what is no request ------------------------------------------------------

BAD = {
    "a frame too large": struct.pack(">i", 200 * MEGABYTE),
    "a negative size": struct.pack(">i", -5),
    "the most negative size": struct.pack(">i", -(2**31)),
    "an empty frame": struct.pack(">i", 0),
    "half a header": struct.pack(">ihh", 4, 18, 0),
    "an unknown API": frame(999, 0, b""),
    "a negative API": frame(-1, 0, b""),
    "an API that nobody serves": frame(8, 2, b""),
    "a version from the future": frame(ApiKey.METADATA, 99, b""),
    "a version from the past": frame(ApiKey.FETCH, 0, b""),
    "a negative version": frame(ApiKey.METADATA, -1, b""),
    "a body cut short": frame(ApiKey.METADATA, 12, b"\x05ab"),
    "a list of everything": frame(ApiKey.METADATA, 1, struct.pack(">i", 2**31 - 1)),
    "a client id past the end": struct.pack(">ihhih", 10, ApiKey.METADATA, 1, 1, 500),
    "a client id that is not text": struct.pack(">ihhih", 16, ApiKey.METADATA, 1, 1, 2)
    + b"\xff\xfe"
    + bytes(4),
    "tags that never end": struct.pack(">ihhih", 14, ApiKey.METADATA, 12, 1, -1) + b"\xff" * 4,
    "a TLS client": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "a browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an HTTP 2 client": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "text": b"hello, is anybody there?\n",
    "a produce cut short": frame(ApiKey.PRODUCE, 9, b"\0\xff\xff\0\0\0\1\x02\x05ab"),
    "a fetch cut short": frame(ApiKey.FETCH, 12, b"\0\0"),
}


@pytest.mark.parametrize("sent", BAD.values(), ids=list(BAD))
def test_what_is_no_request_closes_its_connection_with_one_line_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client, other = await insight.connect(), await insight.connect()
        await other.ask(api_versions())
        await client.send(api_versions(7) + sent)
        # The request before it is still answered.
        assert await client.correlation_id() == 7
        assert await client.is_closed()
        await other.ask(produce(("orders", 0, batch())))
        assert insight.leader("orders").log.log_end_offset == 1

    with_broker(tmp_path, scenario)
    (line,) = closings(caplog)
    assert "connection closed peer=127.0.0.1:" in line


@pytest.mark.parametrize(("sent", "said"), [("a TLS client", "TLS"), ("a browser", "HTTP")])
def test_the_log_names_the_protocol_that_was_mistaken_for_kafkas(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: str, said: str
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        await client.send(BAD[sent])
        assert await client.is_closed()

    with_broker(tmp_path, scenario)
    assert said in closings(caplog)[0]


def test_a_size_limit_of_the_operators_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        fits = produce(("orders", 0, batch(bytes(800))))
        await client.ask(fits)
        await client.send(produce(("orders", 0, batch(bytes(2000)))))
        assert await client.is_closed()
        assert insight.leader("orders").log.log_end_offset == 1

    with_broker(tmp_path, scenario, socket_request_max_bytes=1000)
    assert "socket.request.max.bytes=1000" in closings(caplog)[0]


# -- clients that go away ----------------------------------------------------


class OneThenABug:
    """A shortcut that responds once."""

    def __init__(self) -> None:
        self._served = False

    def serve_run(self, run: FrameRun) -> None:
        if self._served:
            raise RuntimeError("a bug")
        self._served = True
        run.add(b"response")
        run.pass_over(run.length_at(run.start))


def test_responses_from_before_a_bug_are_sent_though_the_socket_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(sending, "send_now", lambda *_: 0)
        transport, statistics = MagicMock(), RequestStatistics()
        transport.get_write_buffer_size.return_value = 0
        transport.is_closing.return_value = False
        transport.get_extra_info.side_effect = {"socket": MagicMock(fileno=lambda: 7)}.get
        registry = MagicMock(admit=lambda _: None)
        loop, failures = asyncio.get_running_loop(), RecordedFailures()
        connection = Connection(
            MagicMock(),
            registry,
            MEGABYTE,
            "PLAINTEXT",
            loop,
            statistics,
            failures,
            RequestMemory(-1),
        )
        connection.connection_made(transport)
        sent = produce(("orders", 0, batch()))
        connection.remember(memoryview(sent)[4:], 20, OneThenABug())
        connection.get_buffer(-1)[: 2 * len(sent)] = 2 * sent
        connection.buffer_updated(2 * len(sent))
        transport.write.assert_called_once_with(b"response")
        assert statistics.sent_bytes == len(b"response")
        assert connection.is_closing

    asyncio.run(scenario())


def test_a_client_that_vanishes_within_a_frame_leaves_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        await client.send(produce(("orders", 0, batch(bytes(5000))))[:-1])
        (connection,) = connections(insight)
        await until(lambda: connection._received.end > 4000)
        client.vanish()
        await insight.is_at_rest()
        assert insight.leader("orders").log.log_end_offset == 0

    with_broker(tmp_path, scenario)
    (line,) = closings(caplog)
    assert "connection lost within a request" in line


@pytest.mark.parametrize("by", ["closing", "vanishing"])
def test_a_client_that_goes_while_its_fetch_waits_leaves_nothing(tmp_path: Path, by: str) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        waiting = fetch(("orders", 0, 0), max_wait_ms=600_000, session_epoch=0)
        await client.send(waiting + api_versions())
        await until(lambda: insight.delayed.waiting == 1)
        if by == "closing":
            await client.close()
        else:
            client.vanish()
        await insight.is_at_rest()
        assert len(insight.sessions) == 0

    with_broker(tmp_path, scenario)


def test_a_stopping_broker_does_not_wait_for_long_polls_or_clients_that_do_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.server.network.open_connections.GRACE_SECONDS", 0.05)

    async def connected(insight: Insight) -> tuple[RawClient, RawClient]:
        await insight.create("orders")
        waiting, deaf = await insight.connect(), await insight.connect(limit=1024)
        await waiting.ask(produce(("orders", 0, batch(bytes(900_000)))))
        await waiting.send(fetch(("orders", 0, 1), max_wait_ms=600_000))
        deaf.stop_reading()
        deaf.writer.write(b"".join(fetch(("orders", 0, 0)) for _ in range(100)))
        await until(
            lambda: any(one._state is ConnectionState.BLOCKED for one in connections(insight))
        )
        await until(lambda: insight.delayed.waiting == 1)
        return waiting, deaf

    async def scenario() -> None:
        async with broker(tmp_path) as insight:
            clients = await connected(insight)
            await insight.running.stop()
            assert len(insight.connections) == 0
            for client in clients:
                client.vanish()

    on_uvloop(scenario())
