"""A connection to another broker: answers in order, and one end for all who wait."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, cast

import pytest
import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.client.connection import AsyncConnection
from barnabas.client.frames import (
    MOST_RESPONSE_BYTES,
    SHORT_BUFFER,
    TRUSTED_BYTES,
    ResponseBuffer,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.describe_controller import (
    DescribeControllerRequest,
    DescribeControllerResponse,
)
from barnabas.wire.fetch.fetch_codec import Buffer
from barnabas.wire.schema import write_response

Run = Callable[[Coroutine[Any, Any, None]], None]
Broker = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

SOON = 20.0
ASK = DescribeControllerRequest()


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    return cast(Run, request.param)


@contextlib.asynccontextmanager
async def asking(broker: Broker) -> AsyncIterator[AsyncConnection]:
    """A peer connected to a broker that behaves as told; both are gone afterwards."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await broker(reader, writer)
        finally:
            writer.close()
            over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        peer = await AsyncConnection.connect("127.0.0.1", port, client_id="test", timeout_s=SOON)
        try:
            yield peer
        finally:
            peer.close()
            async with asyncio.timeout(SOON):
                await over.wait()


async def asked(reader: asyncio.StreamReader) -> int:
    """The correlation id of the next request."""
    frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    key, version, correlation_id = struct.unpack_from(">hhi", frame)
    assert (key, version) == (ApiKey.DESCRIBE_CONTROLLER, 0)
    return int(correlation_id)


def framed(correlation_id: int, state: str) -> bytes:
    response = DescribeControllerResponse(error_code=ErrorCode.none, state=state)
    return write_response(ApiKey.DESCRIBE_CONTROLLER, 0, correlation_id, response)


async def ask(peer: AsyncConnection, timeout_s: float = SOON) -> str:
    response = await peer.request(ApiKey.DESCRIBE_CONTROLLER, 0, ASK, timeout_s)
    return str(response.state)


async def until_closed(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


# -- answers -----------------------------------------------------------------


def test_requests_sent_at_once_get_their_own_answers(run: Run) -> None:
    async def all_three_then_answers(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        ids = [await asked(reader) for _ in range(3)]
        writer.write(b"".join(framed(number, f"answer {i}") for i, number in enumerate(ids)))
        await until_closed(reader, writer)

    async def scenario() -> None:
        async with asking(all_three_then_answers) as peer:
            answers = await asyncio.gather(*(ask(peer) for _ in range(3)))
            assert answers == ["answer 0", "answer 1", "answer 2"]
            assert not peer.closed

    run(scenario())


def test_large_answers_and_small_ones_follow_each_other(run: Run) -> None:
    sizes = [10, 5_000_000, 0, SHORT_BUFFER, 100, TRUSTED_BYTES + 1_000_000, 7]

    async def one_by_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for n, size in enumerate(sizes):
            writer.write(framed(await asked(reader), str(n) * size))
        await until_closed(reader, writer)

    async def scenario() -> None:
        async with asking(one_by_one) as peer:
            answers = await asyncio.gather(*(ask(peer) for _ in sizes))
            assert [len(answer) for answer in answers] == sizes
            assert all(set(answer) <= {str(n)} for n, answer in enumerate(answers))

    run(scenario())


def test_a_frame_of_several_buffers_is_sent_as_one_and_the_answer_is_raw(run: Run) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(4 + 4 + 5))
        await until_closed(reader, writer)

    def frame(correlation_id: int) -> list[Buffer]:
        return [struct.pack(">ii", 9, correlation_id), bytearray(b"he"), memoryview(b"llo")]

    async def scenario() -> None:
        async with asking(echo) as peer:
            assert bytes(await peer.exchange(frame, SOON)) == b"hello"

    run(scenario())


def test_an_answer_whose_asker_was_cancelled_is_passed_over(run: Run) -> None:
    received = asyncio.Event()

    async def two_then_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await asked(reader)
        received.set()
        second = await asked(reader)
        writer.write(framed(first, "unwanted") + framed(second, "wanted"))
        await until_closed(reader, writer)

    async def scenario() -> None:
        async with asking(two_then_answers) as peer:
            first = asyncio.create_task(ask(peer))
            await received.wait()
            first.cancel()
            assert await ask(peer) == "wanted"
            assert first.cancelled()

    run(scenario())


# -- the end -----------------------------------------------------------------


async def assert_gone(
    peer: AsyncConnection, why: str, askers: int = 3, timeout_s: float = SOON
) -> None:
    """All pending and later requests get the error, and the connection is closed."""
    ends = await asyncio.gather(
        *(ask(peer, timeout_s) for _ in range(askers)), return_exceptions=True
    )
    for end in ends:
        assert isinstance(end, PeerGone)
        assert why in str(end)
        assert str(end).startswith("127.0.0.1:")
    assert peer.closed
    with pytest.raises(PeerGone, match=why):
        await ask(peer)


def test_an_answer_that_is_late_ends_the_connection_for_all(run: Run) -> None:
    async def scenario() -> None:
        async with asking(until_closed) as peer:
            await assert_gone(peer, "did not answer within 0.05 s", timeout_s=0.05)

    run(scenario())


def test_the_first_timeout_counts_also_for_those_with_more_patience(run: Run) -> None:
    async def scenario() -> None:
        async with asking(until_closed) as peer:
            patient = asyncio.create_task(ask(peer, 600))
            with pytest.raises(PeerGone, match=r"within 0\.05 s"):
                await ask(peer, 0.05)
            with pytest.raises(PeerGone, match=r"within 0\.05 s"):
                await patient

    run(scenario())


def test_a_broker_that_goes_away_is_gone_for_all(run: Run) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            await asked(reader)
        writer.close()

    async def scenario() -> None:
        async with asking(leave) as peer:
            await assert_gone(peer, "closed the connection")

    run(scenario())


def test_a_broker_that_breaks_off_within_an_answer_is_gone_for_all(run: Run) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ids = [await asked(reader) for _ in range(3)]
        writer.write(framed(ids[0], "x" * 100_000)[:-50_000])
        await writer.drain()

    async def scenario() -> None:
        async with asking(break_off) as peer:
            await assert_gone(peer, "closed the connection")

    run(scenario())


@pytest.mark.parametrize(
    ("garbage", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "announces an answer of 1213486160 bytes"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "announces an answer of 352518912 bytes"),
        (b"\xff\xff\xff\xff", "announces an answer of -1 bytes"),
        (b"\0\0\0\3abc", "announces an answer of 3 bytes"),
        (framed(4711, "?"), "answers 4711, which is not its turn"),
        (struct.pack(">ii", 5, 1) + b"\0", "answers what cannot be read: DESCRIBE_CONTROLLER v0"),
        (struct.pack(">iibhb", 8, 1, 0, 0, 0), "answers what cannot be read"),
        (struct.pack(">iibh", 12, 1, 0, 0) + b"\xff\xff\xff\xff\x07", "answers what cannot be"),
    ],
    ids=["http", "tls", "negative", "too small", "wrong id", "short", "null", "long text"],
)
def test_an_answer_that_is_none_ends_the_connection_for_all(
    run: Run, garbage: bytes, why: str
) -> None:
    async def talk_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            await asked(reader)
        writer.write(garbage)
        await until_closed(reader, writer)

    async def scenario() -> None:
        async with asking(talk_nonsense) as peer:
            await assert_gone(peer, why)

    run(scenario())


def test_an_answer_that_nobody_asked_for_ends_the_connection(run: Run) -> None:
    hung_up = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed(1, "hello?"))
        with contextlib.suppress(ConnectionError):
            await until_closed(reader, writer)
        hung_up.set()

    async def scenario() -> None:
        async with asking(talk) as peer, asyncio.timeout(SOON):
            await hung_up.wait()
            assert peer.closed
            with pytest.raises(PeerGone, match="answers 1, which is not its turn"):
                await ask(peer)

    run(scenario())


def test_close_fails_pending_requests_and_may_be_called_twice(run: Run) -> None:
    async def scenario() -> None:
        async with asking(until_closed) as peer:
            waiting = asyncio.create_task(ask(peer))
            await asyncio.sleep(0)
            peer.close()
            peer.close()
            with pytest.raises(PeerGone, match="closed on our side"):
                await waiting

    run(scenario())


def test_a_request_that_cannot_be_written_leaves_the_connection_as_it_was(run: Run) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed(await asked(reader), "fine"))
        await until_closed(reader, writer)

    def broken(_: int) -> bytes:
        raise KeyError("what to say")

    async def scenario() -> None:
        async with asking(answer) as peer:
            with pytest.raises(KeyError):
                await peer.exchange(broken, SOON)
            assert await ask(peer) == "fine"

    run(scenario())


# -- connecting --------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 1), ("127.0.0.1", -1), ("a" * 300, 9092), ("", 1)]
)
def test_nobody_there_is_gone(run: Run, host: str, port: int) -> None:
    async def scenario() -> None:
        with pytest.raises(PeerGone, match=f"^{host}:{port} is not reached: "):
            await AsyncConnection.connect(host, port, client_id="test", timeout_s=SOON)

    run(scenario())


def test_nobody_answering_the_door_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    async def scenario() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
        with pytest.raises(PeerGone, match=r"example:9092 is not reached within 0\.01 s"):
            await AsyncConnection.connect("example", 9092, client_id="test", timeout_s=0.01)

    asyncio.run(scenario())


# -- buffers -----------------------------------------------------------------


class Wire(asyncio.Transport):
    """Sends nothing; what the peer receives is put into its buffers by hand."""

    def write(self, data: Buffer) -> None: ...

    def abort(self) -> None: ...


def receive(peer: AsyncConnection, data: memoryview, chunk: int) -> None:
    """Give the connection bytes as a loop does, at most `chunk` at a time."""
    while data:
        room = peer.get_buffer(-1)
        assert len(room) > 0
        size = min(len(room), len(data), chunk)
        room[:size] = data[:size]
        data = data[size:]
        peer.buffer_updated(size)


async def answers(sizes: list[int], chunk: int) -> list[memoryview]:
    """The answers that peers are given when these sizes come in chunks."""
    loop = asyncio.get_running_loop()
    peer = AsyncConnection("wire", "test", loop)
    peer.connection_made(Wire())
    waiting = [asyncio.create_task(peer.exchange(lambda _: b"?", SOON)) for _ in sizes]
    await asyncio.sleep(0)
    frames = b"".join(
        struct.pack(">ii", size + 4, n + 1) + bytes([n % 256]) * size
        for n, size in enumerate(sizes)
    )
    receive(peer, memoryview(frames), chunk)
    return list(await asyncio.gather(*waiting))


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(
        st.integers(0, 100)
        | st.integers(SHORT_BUFFER - 20, SHORT_BUFFER + 20)
        | st.integers(0, 4 * SHORT_BUFFER),
        min_size=1,
        max_size=12,
    ),
    chunk=st.integers(1, 64) | st.integers(SHORT_BUFFER - 9, SHORT_BUFFER) | st.just(10**9),
)
@example([SHORT_BUFFER - 8, 0, SHORT_BUFFER - 7, SHORT_BUFFER - 9], 10**9)
@example([SHORT_BUFFER - 8] * 3, SHORT_BUFFER - 1)
def test_answers_come_whole_however_they_are_cut_and_stay_as_they_were_given(
    sizes: list[int], chunk: int
) -> None:
    given_out = asyncio.run(answers(sizes, chunk))
    assert [bytes(answer) for answer in given_out] == [
        bytes([n % 256]) * size for n, size in enumerate(sizes)
    ]


def test_room_is_made_for_what_was_sent_rather_than_announced() -> None:
    async def scenario() -> None:
        peer = AsyncConnection("wire", "test", asyncio.get_running_loop())
        peer.connection_made(Wire())
        receive(peer, memoryview(struct.pack(">i", MOST_RESPONSE_BYTES) + b"a bit"), 10**9)
        assert len(peer.get_buffer(-1)) < TRUSTED_BYTES
        receive(peer, memoryview(bytes(TRUSTED_BYTES)), 10**9)
        assert len(peer.get_buffer(-1)) < 4 * TRUSTED_BYTES

    asyncio.run(scenario())


@pytest.mark.parametrize("size", [2**28 + 1, 2**30, MOST_RESPONSE_BYTES])
def test_a_response_may_be_as_large_as_its_size_can_say(size: int) -> None:
    buffer = ResponseBuffer()
    announced = struct.pack(">i", size)
    buffer.writable()[: len(announced)] = announced
    buffer.received(len(announced))
    assert buffer.next() is None
    assert len(buffer.writable()) == TRUSTED_BYTES
