"""Frames of mixed sizes through a connection: their bytes, what is counted, and few new buffers."""

import asyncio
import struct
from collections.abc import Sequence
from random import Random
from unittest.mock import MagicMock

import pytest

from barnabas.server.metrics.request_statistics import RequestStatistics
from barnabas.server.network import receive_buffer
from barnabas.server.network.connection import Connection
from barnabas.server.network.receive_buffer import FIRST_BUFFER
from barnabas.server.network.request_memory import RequestMemory
from barnabas.server.requests.frame_run import FrameRun
from barnabas.server.requests.replies import Pending, Reply
from tests.support.recorded_failures import RecordedFailures

MEGABYTE = 2**20
LARGE = 128 * 1024
HEAD = struct.Struct(">hhiB")  # API, version, correlation id, and how it is served
FETCH = 1
AT_ONCE, THE_LONG_WAY, HELD, LENT = range(4)


def request(number: int, size: int, kind: int = AT_ONCE) -> bytes:
    return HEAD.pack(FETCH, 9, number, kind).ljust(size, bytes([number & 0xFF]))


def framed(requests: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(each)) + each for each in requests)


class Requests:
    """Serves requests, at once or later, and repeated ones by the shortcut that it is, too."""

    def __init__(self) -> None:
        self.served: list[bytes] = []
        self.waiting: list[Pending] = []
        self.lent: list[tuple[memoryview, bytes]] = []

    def __call__(self, frame: memoryview, connection: Connection) -> Reply:
        self.served.append(bytes(frame))
        kind = frame[HEAD.size - 1]
        if kind == AT_ONCE:
            connection.remember(frame, HEAD.size, self)
        if kind not in (HELD, LENT):
            return b"response"
        pending = Pending(is_read=kind != LENT)
        self.waiting.append(pending)
        if kind == LENT:
            self.lent.append((frame, bytes(frame)))
        return pending

    def serve_run(self, run: FrameRun) -> None:
        if size := run.length_at(run.start):
            self.served.append(bytes(run.view[run.start + 4 : run.start + 4 + size]))
            run.pass_over(size)
            run.add(b"response")

    def finish(self) -> None:
        """Answer what waits; frames that were lent are still what was sent."""
        assert all(frame == sent for frame, sent in self.lent)
        self.lent.clear()
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            if not each.is_read:
                each.read()
            each.answer(b"response")


class Client:
    """A connection with a socket that never blocks; each step keeps the count of its memory."""

    def __init__(self, limit: int = -1) -> None:
        self.requests, self.memory = Requests(), RequestMemory(limit)
        self.registry, self.transport = MagicMock(admit=lambda _: None), MagicMock()
        self.transport.get_extra_info.return_value = None
        self.transport.get_write_buffer_size.return_value = 0
        self.transport.is_closing.return_value = False
        self.connection = Connection(
            self.requests,
            self.registry,
            100 * MEGABYTE,
            "PLAINTEXT",
            asyncio.get_running_loop(),
            RequestStatistics(),
            RecordedFailures(),
            self.memory,
        )
        self.connection.connection_made(self.transport)

    def check(self) -> None:
        received, taken = self.connection._received, self.connection.taken
        assert taken == received.granted - FIRST_BUFFER
        assert self.memory.taken >= taken
        assert not taken or self.registry.watch.called
        assert received.start <= received.end <= received.read_to <= received.capacity

    def read(self, data: memoryview, most: int) -> memoryview:
        """One read of a socket that has `data`; returns what is left in it."""
        room = self.connection.get_buffer(-1)
        size = min(len(room), len(data), most)
        room[:size] = data[:size]
        self.connection.buffer_updated(size)
        self.check()
        return data[size:]

    def send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = self.read(left, len(left))

    async def finish(self) -> None:
        self.requests.finish()
        for _ in range(4):
            await asyncio.sleep(0)
            self.check()

    async def send_in_pieces(self, data: bytes, random: Random, most: int) -> None:
        left = memoryview(data)
        while left or self.requests.waiting:
            if left and not self.connection._read_paused:
                left = self.read(left, random.randint(1, most))
            if not left or self.connection._read_paused or random.random() < 0.3:
                await self.finish()

    def leave(self) -> None:
        self.connection.shrink_buffer()
        self.connection.connection_lost(None)
        assert self.memory.taken == 0


SIZES = (
    [LARGE],
    [LARGE, 100],
    [LARGE // 2 - 4, LARGE // 2 - 5],
    [100, 20_000, 70_000, LARGE, 300_000, 524_287, 600_000],
    [MEGABYTE, LARGE],
)
KINDS = ([AT_ONCE], [*[AT_ONCE] * 5, LENT], [AT_ONCE, THE_LONG_WAY, HELD, LENT])


@pytest.mark.parametrize("limit", [-1, 600_000])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_whatever_is_lent_held_or_repeated_memory_is_counted(sizes: list[int], limit: int) -> None:
    async def scenario() -> None:
        for kinds in KINDS:
            for most in (9_000, MEGABYTE):
                random, client = Random(7), Client(limit)
                frames = [request(n, random.choice(sizes), random.choice(kinds)) for n in range(20)]
                await client.send_in_pieces(framed(frames), random, most)
                assert client.requests.served == frames
                client.leave()

    asyncio.run(scenario())


def test_what_lies_behind_a_lent_frame_is_counted_and_given_back() -> None:
    async def scenario() -> None:
        client, large = Client(), framed([request(1, LARGE)])
        client.send(8 * 8 * large)
        client.registry.watch.reset_mock()
        client.send(framed([request(2, LARGE, LENT)]) + large + large[:-100])
        client.registry.watch.assert_called()
        assert client.memory.taken > client.connection.taken >= LARGE
        await client.finish()
        client.send(large[-100:])
        assert client.memory.taken == client.connection.taken >= LARGE
        client.leave()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "together", [8, 4, 1], ids=["eight, then one", "four, then one", "one, then one"]
)
def test_large_requests_with_small_ones_between_cost_no_new_buffers(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    new_buffer = receive_buffer._new_buffer

    def counted(size: int) -> memoryview:
        made.append(size)
        return new_buffer(size)

    async def scenario() -> None:
        client = Client()
        for _ in range(20):
            client.send(framed([request(1, LARGE)]) * together)
            client.send(framed([request(2, 100)]))
        assert len(client.requests.served) == 20 * (together + 1)

    monkeypatch.setattr(receive_buffer, "_new_buffer", counted)
    asyncio.run(scenario())
    assert len(made) <= 4, made
