"""ListOffsets and DeleteRecords where a partition has followers."""

import asyncio
import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from barnabas.base.ids import TopicPartition
from barnabas.wire.apis import ApiKey
from tests.replication.leading import F2, F3, ME
from tests.server.followed import BROKER, follow, lead
from tests.server.raw import (
    NOW,
    Insight,
    RawClient,
    batch,
    known,
    produce,
    request,
    until,
    with_broker,
)

LATEST, EARLIEST = -1, -2


async def offset(
    client: RawClient, timestamp: int, replica: int = -1, version: int = 7
) -> tuple[ErrorCode, int]:
    schema: Any = import_module(f"kio.schema.list_offsets.v{version}.request")
    asked = known(
        schema.ListOffsetsPartition,
        partition_index=0,
        current_leader_epoch=-1,
        timestamp=timestamp,
    )
    message = schema.ListOffsetsRequest(
        replica_id=replica,
        isolation_level=0,
        topics=(schema.ListOffsetsTopic(name="orders", partitions=(asked,)),),
    )
    response = await client.ask(request(ApiKey.LIST_OFFSETS, version, message))
    got = response.topics[0].partitions[0]
    return got.error_code, got.offset


async def filled(insight: Insight, records: int = 3) -> RawClient:
    client = await insight.connect()
    for _ in range(records):
        await client.ask(produce(("orders", 0, batch()), acks=1))
    return client


def test_consumers_get_committed_offsets_and_replicas_the_log_end(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders")
        client = await filled(insight)
        await follow(client, "orders", 2)
        assert await offset(client, LATEST) == (ErrorCode.none, 2)
        assert await offset(client, LATEST, F2) == (ErrorCode.none, 3)
        assert await offset(client, LATEST, -2) == (ErrorCode.none, 3)

    with_broker(tmp_path, scenario, **BROKER)


@pytest.mark.parametrize(
    ("version", "code"),
    [(4, ErrorCode.leader_not_available), (5, ErrorCode.offset_not_available)],
)
def test_a_new_leader_returns_no_offset_that_may_be_below_the_old_high_watermark(
    tmp_path: Path, version: int, code: ErrorCode
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        client = await filled(insight)
        lead(insight, "orders", high_watermark=1)
        assert await offset(client, LATEST, version=version) == (code, -1)
        assert await offset(client, NOW + 999, version=version) == (code, -1)
        assert await offset(client, NOW - 999, version=version) == (ErrorCode.none, 0)
        assert await offset(client, EARLIEST, version=version) == (ErrorCode.none, 0)
        assert await offset(client, LATEST, F2, version=version) == (ErrorCode.none, 3)
        await follow(client, "orders", 3)
        assert await offset(client, LATEST, version=version) == (ErrorCode.none, 3)
        assert await offset(client, NOW + 999, version=version) == (ErrorCode.none, -1)

    with_broker(tmp_path, scenario, **BROKER)


# -- DeleteRecords -----------------------------------------------------------


def deletion(before: int, timeout_ms: int = 60_000) -> bytes:
    schema: Any = import_module("kio.schema.delete_records.v2.request")
    asked = schema.DeleteRecordsPartition(partition_index=0, offset=before)
    message = schema.DeleteRecordsRequest(
        topics=(schema.DeleteRecordsTopic(name="orders", partitions=(asked,)),),
        timeout=datetime.timedelta(milliseconds=timeout_ms),
    )
    return request(ApiKey.DELETE_RECORDS, 2, message)


def outcome(response: Any) -> tuple[ErrorCode, int]:
    result = response.topics[0].partitions[0]
    return result.error_code, result.low_watermark


async def deleting(insight: Insight, client: RawClient, before: int) -> "asyncio.Task[Any]":
    task = asyncio.ensure_future(client.ask(deletion(before)))
    await until(lambda: insight.delayed.deletions.delayed == 1)
    return task


def test_records_are_deleted_when_they_are_gone_on_all_replicas(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME, F2, F3))
        client, follower = await filled(insight), await insight.connect()
        for replica in (F2, F3):
            await follow(follower, "orders", 3, replica=replica, log_start=0)
        answer = await deleting(insight, client, 2)
        await follow(follower, "orders", 3, replica=F2, log_start=2)
        assert not answer.done()
        got = await follow(follower, "orders", 3, replica=F3, log_start=2)
        assert got.log_start_offset == 2
        assert outcome(await answer) == (ErrorCode.none, 2)
        assert outcome(await client.ask(deletion(1))) == (ErrorCode.none, 2)

    with_broker(tmp_path, scenario, **BROKER)


def test_a_wait_that_expires_or_whose_leader_resigned_is_an_error(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders")
        client = await filled(insight)
        await follow(client, "orders", 3, log_start=0)
        timed_out = await client.ask(deletion(2, timeout_ms=20))
        assert outcome(timed_out) == (ErrorCode.request_timed_out, -1)
        answer = await deleting(insight, client, 2)
        lead(insight, "orders", epoch=2)
        assert outcome(await answer) == (ErrorCode.not_leader_or_follower, -1)
        await follow(client, "orders", 3, log_start=0, epoch=2)
        answer = await deleting(insight, client, 3)
        insight.running.broker.replicas.remove(TopicPartition("orders", 0))
        insight.delayed.on_partition(("orders", 0))
        assert outcome(await answer) == (ErrorCode.not_leader_or_follower, -1)

    with_broker(tmp_path, scenario, **BROKER)
