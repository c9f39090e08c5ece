"""Produces behind one that waits for followers: begun at once, answered in their order."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.server.network.reply_queue import MOST_QUEUED
from barnabas.wire.apis import ApiKey
from tests.replication.leading import F2, ME
from tests.server.followed import BROKER, follow, lead
from tests.server.raw import (
    Insight,
    RawClient,
    api_versions,
    batch,
    frame,
    produce,
    read_response,
    until,
    with_broker,
)
from tests.server.test_produce import only


def to_all(number: int, topic: str = "orders", partition: int = 0, **options: Any) -> bytes:
    options = {"timeout_ms": 99_999, **options}
    return produce((topic, partition, batch()), correlation_id=number, **options)


async def produced(client: RawClient) -> tuple[int, int, int]:
    """The next answer: to which request, its error, its offset."""
    answer = await client.receive()
    got = only(read_response(ApiKey.PRODUCE, 9, answer))
    return int.from_bytes(answer[:4]), got.error_code, got.base_offset


def has(leader: LeaderReplica, end: int) -> bool:
    return leader.log.log_end_offset == end


def dispatched(insight: Insight, api: ApiKey) -> int:
    return next(iter(insight.connections._idle_watches))._statistics.by_api[api].dispatched


async def not_told(client: RawClient, insight: Insight) -> "asyncio.Task[tuple[int, int, int]]":
    """The next answer, which is not there though the broker had time for it."""
    answer = asyncio.ensure_future(produced(client))
    await (await insight.connect()).ask(api_versions())
    assert not answer.done()
    return answer


@pytest.mark.parametrize("configs", [{}, {"message_timestamp_type": "LogAppendTime"}])
def test_all_are_begun_before_the_first_is_answered(
    tmp_path: Path, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        leader = lead(insight, "orders")
        client, follower = await insight.connect(), await insight.connect()
        for n in range(5):
            await client.send(to_all(n))
        await until(lambda: leader.log.log_end_offset == 5)
        await follow(follower, "orders", 3)
        assert [await produced(client) for _ in range(3)] == [(n, 0, n) for n in range(3)]
        fourth = await not_told(client, insight)
        await follow(follower, "orders", 5)
        assert [await fourth, await produced(client)] == [(3, 0, 3), (4, 0, 4)]

    with_broker(tmp_path, scenario, **BROKER)


def test_one_that_is_not_in_the_log_yet_lets_none_begin(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", flush_messages="1")
        leader = lead(insight, "orders")
        client, follower = await insight.connect(), await insight.connect()
        await client.send(to_all(0) + to_all(1))
        for n in range(2):
            await until(lambda: insight.delayed.waiting == 1)
            assert leader.log.log_end_offset == n + 1
            await follow(follower, "orders", n + 1)
            assert await produced(client) == (n, 0, n)

    with_broker(tmp_path, scenario, **BROKER)


def test_what_could_be_answered_sooner_stands_in_line(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", partitions=2)
        lead(insight, "orders", partition=0)
        lead(insight, "orders", partition=1)
        client, follower = await insight.connect(), await insight.connect()
        requests = [
            to_all(0),
            to_all(1, acks=1),
            to_all(2, topic="nowhere"),
            to_all(3, acks=0),
            to_all(4, partition=1),
            to_all(5),
        ]
        await client.send(b"".join(requests))
        await until(lambda: insight.delayed.waiting == 3)
        await follow(follower, "orders", 1, partition=1)
        first = await not_told(client, insight)
        await follow(follower, "orders", 4)
        missing = int(ErrorCode.unknown_topic_or_partition)
        assert await first == (0, 0, 0)
        expected = [(1, 0, 1), (2, missing, -1), (4, 0, 0), (5, 0, 3)]
        assert [await produced(client) for _ in expected] == expected

    with_broker(tmp_path, scenario, **BROKER)


def test_another_request_waits_for_all_before_it_and_is_then_served(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        leader = lead(insight, "orders")
        client, follower = await insight.connect(), await insight.connect()
        await client.send(to_all(0) + to_all(1) + api_versions(2) + to_all(3))
        await until(lambda: leader.log.log_end_offset == 2)
        first = await not_told(client, insight)
        await follow(follower, "orders", 2)
        assert await first == (0, 0, 0)
        assert [await client.correlation_id() for _ in range(2)] == [1, 2]
        await until(lambda: leader.log.log_end_offset == 3)
        await follow(follower, "orders", 3)
        assert await produced(client) == (3, 0, 2)

    with_broker(tmp_path, scenario, **BROKER)


def test_another_request_waits_also_behind_one_that_is_answered_at_once(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", partitions=2)
        leader = lead(insight, "orders")
        client, follower = await insight.connect(), await insight.connect()
        for number in range(2):  # so that the way of these requests is known
            await client.send(to_all(number, partition=1))
            assert await produced(client) == (number, 0, number)
        served = dispatched(insight, ApiKey.API_VERSIONS)
        await client.send(to_all(2) + to_all(3, partition=1) + api_versions(4))
        await until(lambda: insight.leader("orders", 1).log.log_end_offset == 3)
        first = await not_told(client, insight)
        assert dispatched(insight, ApiKey.API_VERSIONS) == served + 1  # that of `not_told`
        await follow(follower, "orders", leader.log.log_end_offset)
        assert [await first, await produced(client)] == [(2, 0, 0), (3, 0, 2)]
        assert await client.correlation_id() == 4

    with_broker(tmp_path, scenario, **BROKER)


@pytest.mark.parametrize(
    "bad", [frame(ApiKey.PRODUCE, 9, b"\xff" * 20), b"\xff\xff\xff\xff\0\0more"]
)
def test_what_is_no_request_closes_the_connection_behind_the_answers_before_it(
    tmp_path: Path, bad: bytes
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        leader = lead(insight, "orders")
        client, follower = await insight.connect(), await insight.connect()
        await client.send(to_all(0) + to_all(1) + bad + to_all(2))
        await until(lambda: leader.log.log_end_offset == 2)
        await follow(follower, "orders", 2)
        assert [await produced(client) for _ in range(2)] == [(0, 0, 0), (1, 0, 1)]
        assert await client.is_closed()
        assert leader.log.log_end_offset == 2

    with_broker(tmp_path, scenario, **BROKER)


def test_there_is_an_end_to_the_line_and_all_get_through(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        leader = lead(insight, "orders")
        client, follower = await insight.connect(), await insight.connect()
        many = 4 * MOST_QUEUED
        sending = asyncio.ensure_future(
            client.send(
                b"".join(
                    produce(
                        ("orders", 0, batch(bytes(20_000))), correlation_id=n, timeout_ms=99_999
                    )
                    for n in range(many)
                )
            )
        )
        for end in range(MOST_QUEUED, many + 1, MOST_QUEUED):
            await until(partial(has, leader, end))
            first = await not_told(client, insight)
            await follow(follower, "orders", end)
            assert await first == (end - MOST_QUEUED, 0, end - MOST_QUEUED)
            for n in range(end - MOST_QUEUED + 1, end):
                assert await produced(client) == (n, 0, n)
        await sending

    with_broker(tmp_path, scenario, **BROKER)


def test_responses_behind_a_failed_one_are_sent(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", min_insync_replicas="2")
        leader = lead(insight, "orders")
        client = await insight.connect()
        await client.send(to_all(0, timeout_ms=20) + to_all(1) + to_all(2, acks=1))
        timed_out, too_few = ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append
        assert await produced(client) == (0, int(timed_out), 0)
        leader.apply_isr((ME,), 1)
        insight.delayed.on_partition(("orders", 0))
        assert await produced(client) == (1, int(too_few), 1)
        assert await produced(client) == (2, 0, 2)

    with_broker(tmp_path, scenario, **BROKER)


def test_a_leader_that_becomes_alone_within_a_row_answers_all_in_order(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        leader = lead(insight, "orders", max_lag_ms=-1)
        client = await insight.connect()
        await client.send(to_all(0) + to_all(1))
        await until(lambda: leader.log.log_end_offset == 2)
        leader.apply_isr((ME,), 1)  # nobody is answered until the next append moves the watermark
        await client.send(b"".join(to_all(n) for n in range(2, 6)))
        assert [await produced(client) for _ in range(6)] == [(n, 0, n) for n in range(6)]

    with_broker(tmp_path, scenario, **BROKER)


@pytest.mark.parametrize("leave", ["close", "vanish"])
def test_a_disconnect_leaves_no_response_waiting(tmp_path: Path, leave: str) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME, F2))
        client = await insight.connect()
        await client.send(b"".join(to_all(n) for n in range(3)))
        await until(lambda: insight.delayed.waiting == 3)
        client.vanish() if leave == "vanish" else await client.close()
        await until(lambda: (insight.delayed.waiting, len(insight.timer)) == (0, 0))

    with_broker(tmp_path, scenario, **BROKER)
