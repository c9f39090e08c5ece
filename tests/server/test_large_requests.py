"""Large requests take turns, and whatever one of them asks for, others are served meanwhile."""

import asyncio
import logging
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.server.network.receive_buffer import FIRST_BUFFER
from barnabas.server.requests.large_requests import (
    LESS_LARGE,
    LONGEST_SECONDS,
    MOST_AT_ONCE,
    VERY_LARGE,
    LargeRequests,
    LargeTurn,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.bounds import MOST_ELEMENTS
from barnabas.wire.varint import MOST_TAGS, uvarint
from tests.coordinator.counters import in_virtual_time
from tests.server.raw import Insight, api_versions, frame, read_response, until, with_broker

TOPIC = "orders"


class Request:
    """A request that is served when the test says so."""

    def __init__(self, large: LargeRequests, size: int) -> None:
        self.turn = large.turn(size)
        self.size = size
        self.serving = asyncio.ensure_future(self.turn.begun())

    @property
    def has_begun(self) -> bool:
        return self.serving.done() and not self.serving.cancelled()


async def queued(*sizes: int) -> list[Request]:
    large = LargeRequests()
    requests = [Request(large, size) for size in sizes]
    await asyncio.sleep(0)
    return requests


def begun(requests: list[Request]) -> list[bool]:
    return [each.has_begun for each in requests]


# -- turns -------------------------------------------------------------------


@given(st.lists(st.integers(1, 3 * VERY_LARGE), max_size=40))
def test_all_requests_are_served_and_few_at_a_time(sizes: list[int]) -> None:
    @in_virtual_time
    async def scenario() -> None:
        left = await queued(*sizes)
        while left:
            served = [each for each in left if each.has_begun]
            assert served
            large = [each.size for each in served if each.size > VERY_LARGE]
            others = [each.size for each in served if LESS_LARGE < each.size <= VERY_LARGE]
            less_large = [each.size for each in served if each.size <= LESS_LARGE]
            assert len(large) <= 1
            assert sum(others) <= MOST_AT_ONCE
            assert sum(less_large) <= MOST_AT_ONCE
            served[0].turn.end()
            left.remove(served[0])
            await asyncio.sleep(0)

    scenario()


@in_virtual_time
async def test_a_request_does_not_wait_for_a_very_large_one() -> None:
    requests = await queued(10 * VERY_LARGE, 10 * VERY_LARGE, VERY_LARGE)
    assert begun(requests) == [True, False, True]
    for each in requests:
        each.turn.abandon()


@in_virtual_time
async def test_a_request_of_hundreds_of_partitions_does_not_wait_for_those_of_thousands() -> None:
    many = [VERY_LARGE] * (MOST_AT_ONCE // VERY_LARGE + 1)
    requests = await queued(*many, LESS_LARGE)
    assert [each.has_begun for each in requests[-2:]] == [False, True]
    for each in requests:
        each.turn.abandon()


@in_virtual_time
async def test_a_request_among_brokers_waits_for_nobody() -> None:
    large = LargeRequests()
    turns = [large.turn(9 * VERY_LARGE), large.turn(9 * VERY_LARGE)]
    of_controller = large.turn(9 * VERY_LARGE, among_brokers=True)
    await of_controller.begun()
    for each in (*turns, of_controller):
        each.end()
    turns[1].end()


@in_virtual_time
async def test_a_turn_ends_by_itself() -> None:
    requests = await queued(2 * VERY_LARGE, 2 * VERY_LARGE)
    await asyncio.sleep(LONGEST_SECONDS + 0.1)
    assert begun(requests) == [True, True]
    for each in requests:
        each.turn.end()  # twice is once


@in_virtual_time
async def test_who_is_gone_gets_no_turn() -> None:
    requests = await queued(2 * VERY_LARGE, 2 * VERY_LARGE, 2 * VERY_LARGE)
    requests[1].turn.abandon()
    requests[0].turn.end()
    await asyncio.sleep(0)
    assert begun(requests) == [True, False, True]
    assert requests[1].serving.cancelled()
    requests[2].turn.end()


# -- on a broker -------------------------------------------------------------


def list_offsets(count: int, correlation_id: int = 0) -> bytes:
    partitions = struct.pack(">i", count) + struct.pack(">iq", 0, -1) * count
    name = struct.pack(">h", len(TOPIC)) + TOPIC.encode()
    return frame(
        ApiKey.LIST_OFFSETS,
        1,
        struct.pack(">ii", -1, 1) + name + partitions,
        correlation_id,
    )


def test_the_bytes_of_a_large_request_stay_until_it_is_read(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create(TOPIC)
        client = await insight.connect(limit=2**26)
        # The next request must not overwrite it, nor be answered before it.
        for count in (3_000, 50_000):
            await client.send(
                list_offsets(count, 1) + api_versions(2) + list_offsets(count, 3) + api_versions(4)
            )
            for correlation_id in range(1, 5):
                answer = await client.receive()
                assert struct.unpack_from(">i", answer) == (correlation_id,)
                if correlation_id % 2:
                    (topic,) = read_response(ApiKey.LIST_OFFSETS, 1, answer).topics
                    assert len(topic.partitions) == count
        assert insight.connections.memory.taken <= 2**18

    with_broker(tmp_path, scenario)


def counted(request: bytes) -> int:
    """The memory of a request that is received: beyond the first buffer of its connection."""
    return len(request) - FIRST_BUFFER


@pytest.fixture
def decoding(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Requests whose turn it is are not decoded before it is set."""
    may_decode, begun = asyncio.Event(), LargeTurn.begun

    async def begun_and_set(turn: LargeTurn) -> None:
        await begun(turn)
        await may_decode.wait()

    monkeypatch.setattr(LargeTurn, "begun", begun_and_set)
    return may_decode


def test_memory_of_a_large_request_counts_until_it_is_decoded(
    tmp_path: Path, decoding: asyncio.Event
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create(TOPIC)
        memory = insight.connections.memory
        clients = [await insight.connect(limit=2**26) for _ in range(4)]
        request = list_offsets(100_000)
        for each in clients:
            await each.send(request)
        await until(lambda: memory.taken >= 4 * counted(request))
        decoding.set()
        for each in clients:
            await each.receive()
        await until(lambda: memory.taken == 0)

    with_broker(tmp_path, scenario)


def test_who_disconnects_while_a_large_request_waits_leaves_nothing(
    tmp_path: Path, decoding: asyncio.Event
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create(TOPIC)
        memory, request = insight.connections.memory, list_offsets(100_000)
        for _ in range(4):
            await (await insight.connect()).send(request)
        await until(lambda: memory.taken >= 4 * counted(request))
        await insight.is_at_rest()
        # That of the one whose turn it was.
        await until(lambda: memory.taken == counted(request))
        decoding.set()
        await until(lambda: memory.taken == 0)
        await until(lambda: len(insight.state.work) == 0)

    with_broker(tmp_path, scenario)


def test_a_request_with_too_many_elements_closes_its_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        with caplog.at_level(logging.INFO):
            await client.send(list_offsets(MOST_ELEMENTS))
            assert await client.reader.read() == b""
        (why,) = [each.getMessage() for each in caplog.records if "closed" in each.getMessage()]
        assert "more than 1,000,000 elements" in why

    with_broker(tmp_path, scenario)


def test_tagged_fields_without_end_close_the_connection(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        tags = uvarint(MOST_TAGS + 1) + b"".join(
            uvarint(100 + n) + b"\0" for n in range(MOST_TAGS + 1)
        )
        body = struct.pack(">hhih", ApiKey.METADATA, 12, 1, -1) + tags + b"\x01\0\0\0"
        await client.send(struct.pack(">i", len(body)) + body)
        assert await client.reader.read() == b""

    with_broker(tmp_path, scenario)
