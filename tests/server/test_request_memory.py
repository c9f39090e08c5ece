"""The memory of requests in all: bounded, fair, and never in the hands of those that stall."""

import asyncio
import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.server.network.open_connections import OpenConnections
from barnabas.server.network.request_memory import SMALL_REQUEST, RequestMemory
from tests.server.raw import Insight, api_versions, batch, produce, until, with_broker
from tests.support.broker import BrokerProcess

MEGABYTE = 2**20
LIMIT = 64 * MEGABYTE


class Request:
    """A request that is received in steps, from a client that sends all of it."""

    def __init__(self, size: int, step: int) -> None:
        self.size = size
        self.step = step
        self.taken = 0
        self.waits = False

    @property
    def is_whole(self) -> bool:
        return self.taken == self.size

    def on_granted(self, size: int) -> None:
        self.waits = False
        self.taken += size

    def receive(self, memory: RequestMemory) -> None:
        size = min(self.step, self.size - self.taken)
        if memory.take(self, size, self.size):
            self.taken += size
        else:
            self.waits = True


REQUESTS = st.lists(
    st.builds(Request, st.integers(1, LIMIT // 2), st.integers(MEGABYTE // 4, 4 * MEGABYTE)),
    max_size=30,
)


@given(REQUESTS, st.integers(1, 8))
def test_however_many_requests_are_half_received_all_are_received_in_the_end(
    requests: list[Request], served_each_turn: int
) -> None:
    memory, left = RequestMemory(LIMIT), list(requests)
    most = LIMIT + SMALL_REQUEST + max((each.size for each in requests), default=0)
    for _ in range(10_000):
        for each in left:
            if not each.waits and not each.is_whole:
                each.receive(memory)
        assert memory.taken == sum(each.taken for each in left) <= most
        for each in [each for each in left if each.is_whole][:served_each_turn]:
            left.remove(each)
            memory.give_back(each, each.size)
        if not left:
            break
    assert not left
    assert memory.taken == memory.waiting == 0
    assert not memory.is_short


def test_large_requests_leave_memory_to_small_ones() -> None:
    memory = RequestMemory(LIMIT)
    large = [Request(LIMIT // 2, MEGABYTE) for _ in range(10)]
    for _ in range(LIMIT // MEGABYTE):
        for each in large:
            if not each.waits and not each.is_whole:
                each.receive(memory)
    assert sum(each.waits for each in large) == 9  # one is read to its end
    small = [Request(MEGABYTE, MEGABYTE) for _ in range(8)]
    for each in small:
        each.receive(memory)
        assert each.is_whole
        memory.give_back(each, each.size)


def test_a_connection_that_is_lost_waits_no_more() -> None:
    memory = RequestMemory(MEGABYTE)
    first, second, third = (Request(4 * MEGABYTE, MEGABYTE) for _ in range(3))
    for each in (first, second, third):
        each.receive(memory)
    assert (second.waits, third.waits, memory.waiting) == (True, True, 2)
    memory.leave(second)
    memory.give_back(first, first.taken)
    assert (third.waits, memory.waiting, second.taken) == (False, 0, 0)


# -- a broker ----------------------------------------------------------------


def of(insight: Insight) -> OpenConnections:
    return insight.connections


def announced(size: int, sent: int) -> bytes:
    return struct.pack(">i", size) + bytes(sent)


def test_half_sent_requests_hold_no_more_than_the_limit_and_others_are_served(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", max_message_bytes=str(8 * MEGABYTE))
        hogs = [await insight.connect() for _ in range(8)]
        for hog in hogs:
            hog.writer.write(announced(7 * MEGABYTE, 6 * MEGABYTE))
        await until(lambda: of(insight).memory.waiting >= 6)
        assert of(insight).memory.taken <= 8 * MEGABYTE + 7 * MEGABYTE
        client = await insight.connect()
        await client.ask(api_versions())
        await client.ask(produce(("orders", 0, batch(bytes(900_000)))))
        assert insight.leader("orders").log.log_end_offset == 1
        for hog in hogs:
            hog.vanish()
        await until(lambda: of(insight).memory.taken == 0)
        await client.ask(produce(("orders", 0, batch(bytes(7_000_000)))))

    with_broker(
        tmp_path,
        scenario,
        queued_max_request_bytes=8 * MEGABYTE,
        socket_request_max_bytes=8 * MEGABYTE,
    )


def test_many_large_requests_at_once_are_all_served_though_few_fit(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", max_message_bytes=str(8 * MEGABYTE))
        clients = [await insight.connect() for _ in range(12)]
        large = produce(("orders", 0, batch(bytes(5 * MEGABYTE))))
        await asyncio.gather(*(client.ask(large) for client in clients))
        assert insight.leader("orders").log.log_end_offset == 12
        await until(lambda: of(insight).memory.taken == 0)

    with_broker(
        tmp_path,
        scenario,
        queued_max_request_bytes=8 * MEGABYTE,
        socket_request_max_bytes=8 * MEGABYTE,
    )


@pytest.mark.parametrize("sent", [100, MEGABYTE], ids=["small", "large"])
def test_a_client_that_stalls_within_a_request_is_disconnected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: int
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(insight: Insight) -> None:
        stalled, idle = await insight.connect(), await insight.connect()
        await idle.ask(api_versions())
        await stalled.send(announced(2 * MEGABYTE, sent))
        assert await stalled.is_closed()
        await idle.ask(api_versions())
        assert of(insight).memory.taken == 0

    with_broker(tmp_path, scenario, barnabas_receive_stall_timeout_ms=200)
    (why,) = [line for line in caplog.messages if "stalled for" in line]
    assert f"after {sent + 4} of {2 * MEGABYTE + 4} bytes" in why


def test_a_slow_client_that_goes_on_sending_is_served(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        large = produce(("orders", 0, batch(bytes(900_000))))
        for start in range(0, len(large), 100_000):
            await client.send(large[start : start + 100_000])
            await asyncio.sleep(0.1)  # all of it takes longer than the timeout
        await client.receive()

    with_broker(tmp_path, scenario, barnabas_receive_stall_timeout_ms=500)


def test_an_idle_connection_gives_back_the_buffer_of_its_large_requests(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        await client.ask(produce(("orders", 0, batch(bytes(900_000)))))
        assert of(insight).memory.taken > 0
        await until(lambda: of(insight).memory.taken == 0)
        await client.ask(produce(("orders", 0, batch(bytes(900_000)))))

    with_broker(tmp_path, scenario, barnabas_receive_stall_timeout_ms=200)


# -- a broker process --------------------------------------------------------


def resident(broker: BrokerProcess) -> int:
    pages = int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1])
    return pages * 4096


@contextmanager
def hogging(broker: BrokerProcess, count: int, size: int, sent: int) -> Iterator[int]:
    """Clients that announce `size` and send `sent`; yields what the kernel accepted of that."""
    accepted, hogs, data = 0, list[socket.socket](), memoryview(announced(size, sent))
    try:
        for _ in range(count):
            hog = socket.create_connection(("127.0.0.1", broker.port))
            hogs.append(hog)
            hog.settimeout(1)
            left = data
            try:
                while left:
                    left = left[hog.send(left) :]
            except TimeoutError:
                pass
            accepted += len(data) - len(left)
        yield accepted
    finally:
        for hog in hogs:
            hog.close()


def test_a_broker_takes_no_more_memory_than_was_sent_and_gives_it_back(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        before = resident(broker)
        with hogging(broker, 4, 100 * 10**6, 20 * MEGABYTE) as sent:
            assert sent >= 80 * MEGABYTE
            assert resident(broker) - before <= 1.2 * sent
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.sendall(api_versions())
            assert client.recv(4)
        for _ in range(100):
            if resident(broker) - before < 10 * MEGABYTE:
                break
            with socket.create_connection(("127.0.0.1", broker.port)) as client:
                client.sendall(api_versions())
                assert client.recv(4)
        assert resident(broker) - before < 10 * MEGABYTE
    finally:
        broker.close()
