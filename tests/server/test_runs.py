"""Requests that come together: served as if each had come by itself, also if by one write."""

import random
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.log.segment.segment import Segment
from barnabas.wire.apis import ApiKey
from tests.server.raw import Insight, RawClient, batch, fetch, produce, read_response, with_broker
from tests.support.full_disk import room_for

SMALL: dict[str, Any] = {
    "segment_bytes": "4000",
    "index_interval_bytes": "300",
    "segment_index_bytes": "60",
}


def shape(segment: Segment) -> tuple[object, ...]:
    offsets = [segment.offset_index.entry(n) for n in range(segment.offset_index.entries)]
    headers = [header._replace(crc=0) for _, header in segment.headers()]
    return segment.base_offset, segment.end_offset, segment.size, offsets, headers


def produced(answer: bytes) -> Any:
    (topic,) = read_response(ApiKey.PRODUCE, 9, answer).responses
    (partition,) = topic.partition_responses
    return partition


async def produce_together(client: RawClient, topic: str, batches: list[bytes]) -> list[Any]:
    await client.send(b"".join(produce((topic, 0, each)) for each in batches))
    return [produced(await client.receive()) for _ in batches]


def some_batches(chance: random.Random) -> list[bytes]:
    batches = []
    for _ in range(chance.randint(1, 40)):
        values = [b"v" * chance.randint(1, 200)] * chance.randint(1, 3)
        sent = batch(*values)
        if chance.random() < 0.05:
            sent = sent[:-1] + b"?"  # its CRC is wrong
        batches.append(sent)
    return batches


@pytest.mark.parametrize("seed", range(5))
def test_a_log_is_the_same_whether_batches_come_together_or_not(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)

    async def scenario(insight: Insight) -> None:
        for topic in ("alone", "along"):
            await insight.create(topic, **SMALL)
        client, other = await insight.connect(), await insight.connect()
        for _ in range(6):
            batches = some_batches(chance)
            alone = [(await produce_together(other, "alone", [each]))[0] for each in batches]
            assert await produce_together(client, "along", batches) == alone
        logs = [insight.leader(topic).log for topic in ("alone", "along")]
        assert (
            logs[0].log_end_offset
            == logs[1].log_end_offset
            == insight.leader("along").high_watermark
        )
        first, second = ([shape(segment) for segment in log.segments] for log in logs)
        assert first == second
        assert len(first) > 2

    with_broker(tmp_path, scenario)


def test_when_the_disk_is_full_every_batch_of_the_run_gets_the_error(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        batches = [batch(b"v" * 100)] * 5
        (kept,) = await produce_together(client, "orders", batches[:1])
        assert kept.error_code == ErrorCode.none
        size = insight.leader("orders").log.size_bytes
        with room_for(size + 10):
            answers = await produce_together(client, "orders", batches)
        assert {each.error_code for each in answers} == {ErrorCode.kafka_storage_error}

    with_broker(tmp_path, scenario)


def test_fetches_that_come_together_are_answered_in_order(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await insight.connect()
        await produce_together(client, "orders", [batch(b"v" * 90_000)] * 20)
        offsets = [0, 5, 5, 3, 19, 0, 18, 1]
        wanted = [
            fetch(("orders", 0, offset), partition_max_bytes=100_000, correlation_id=offset)
            for offset in offsets
        ]
        await client.send(b"".join(wanted))
        for offset in offsets:
            answer = await client.receive()
            assert int.from_bytes(answer[:4], "big") == offset
            (topic,) = read_response(ApiKey.FETCH, 12, answer).responses
            records = bytes(topic.partitions[0].records)
            assert int.from_bytes(records[:8], "big") == offset
            assert 90_000 < len(records) < 91_000

    with_broker(tmp_path, scenario)
