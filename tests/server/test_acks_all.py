"""Produce with acks=all: answered when all in-sync replicas have it, or never as if they had."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from barnabas.base.ids import TopicPartition
from tests.replication.leading import F2, F3, ME
from tests.server.followed import BROKER, follow, lead
from tests.server.raw import Insight, RawClient, batch, produce, until, with_broker
from tests.server.test_produce import answers, every_path, only


async def asked(insight: Insight, client: RawClient, sent: bytes) -> "asyncio.Task[Any]":
    """Send a request, and return when it waits."""
    before = insight.delayed.produces.delayed
    task = asyncio.ensure_future(client.ask(sent))
    await until(lambda: insight.delayed.produces.delayed == before + 1)
    return task


@every_path
def test_the_answer_waits_for_those_in_sync(tmp_path: Path, configs: dict[str, Any]) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        lead(insight, "orders", (ME, F2), replicas=(ME, F2, F3))
        producer, follower = await insight.connect(), await insight.connect()
        # Twice on one connection: the second time is another way through the broker.
        for n in range(3):
            answer = await asked(
                insight, producer, produce(("orders", 0, batch()), timeout_ms=9999)
            )
            assert (await follow(follower, "orders", n)).high_watermark == n
            assert not answer.done()
            assert (await follow(follower, "orders", n + 1)).high_watermark == n + 1
            told = only(await answer)
            assert (told.error_code, told.base_offset) == (ErrorCode.none, n)
            assert (told.log_append_time is not None) == ("message_timestamp_type" in configs)

    with_broker(tmp_path, scenario, **BROKER)


@every_path
def test_others_do_not_wait(tmp_path: Path, configs: dict[str, Any]) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        leader = lead(insight, "orders")
        client = await insight.connect()
        for n in range(3):
            told = only(await client.ask(produce(("orders", 0, batch()), acks=1)))
            assert (told.error_code, told.base_offset) == (ErrorCode.none, n)
        await client.send(produce(("orders", 0, batch()), acks=0))
        await until(lambda: leader.log.log_end_offset == 4)
        assert leader.high_watermark == 0

    with_broker(tmp_path, scenario, **BROKER)


@every_path
def test_a_leader_alone_in_sync_answers_at_once(tmp_path: Path, configs: dict[str, Any]) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        leader = lead(insight, "orders", (ME,), replicas=(ME, F2))
        client = await insight.connect()
        for _ in range(2):
            assert only(await client.ask(produce(("orders", 0, batch())))).error_code == 0
        assert leader.high_watermark == 2

    with_broker(tmp_path, scenario, **BROKER)


def test_a_batch_that_is_sent_again_waits_for_the_first_one(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders")
        sent = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
        first, second = await insight.connect(), await insight.connect()
        waiting = [
            await asked(insight, client, produce(("orders", 0, sent), timeout_ms=9999))
            for client in (first, second)
        ]
        await follow(await insight.connect(), "orders", 1)
        for answer in waiting:
            told = only(await answer)
            assert (told.error_code, told.base_offset) == (ErrorCode.none, 0)

    with_broker(tmp_path, scenario, **BROKER)


@every_path
def test_an_expired_produce_gets_request_timed_out(tmp_path: Path, configs: dict[str, Any]) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        lead(insight, "orders")
        client = await insight.connect()
        for n in range(2):
            told = only(await client.ask(produce(("orders", 0, batch()), timeout_ms=20)))
            assert (told.error_code, told.base_offset) == (ErrorCode.request_timed_out, n)

    with_broker(tmp_path, scenario, **BROKER)


@every_path
def test_no_batch_of_a_leader_that_is_gone_is_acknowledged(
    tmp_path: Path, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        lead(insight, "orders")
        client = await insight.connect()
        answer = await asked(insight, client, produce(("orders", 0, batch()), timeout_ms=9999))
        # Even if it is the same broker again, and alone: all of its log is committed then.
        assert lead(insight, "orders", (ME,), replicas=(ME, F2), epoch=2).high_watermark == 1
        assert only(await answer).error_code == ErrorCode.not_leader_or_follower
        lead(insight, "orders", epoch=3)
        answer = await asked(insight, client, produce(("orders", 0, batch()), timeout_ms=9999))
        insight.running.broker.replicas.remove(TopicPartition("orders", 0))
        insight.delayed.on_partition(("orders", 0))
        assert only(await answer).error_code == ErrorCode.not_leader_or_follower

    with_broker(tmp_path, scenario, **BROKER)


@every_path
def test_a_leader_that_leads_on_in_a_newer_epoch_acknowledges_what_it_has(
    tmp_path: Path, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs)
        lead(insight, "orders", (ME, F2, F3))
        client, follower = await insight.connect(), await insight.connect()
        answer = await asked(insight, client, produce(("orders", 0, batch()), timeout_ms=9999))
        lead(insight, "orders", (ME, F2), epoch=2, leads_on=True)
        lead(insight, "orders", (ME, F2), epoch=3, leads_on=True)
        await follow(follower, "orders", 0, epoch=3)
        assert not answer.done()
        await follow(follower, "orders", 1, epoch=3)
        told = only(await answer)
        assert (told.error_code, told.base_offset) == (ErrorCode.none, 0)

    with_broker(tmp_path, scenario, **BROKER)


@every_path
def test_too_few_in_sync_replicas_are_an_error_before_and_after_the_append(
    tmp_path: Path, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", **configs, min_insync_replicas="2")
        leader = lead(insight, "orders")
        client = await insight.connect()
        answer = await asked(insight, client, produce(("orders", 0, batch()), timeout_ms=9999))
        leader.apply_isr((ME,), 1)
        insight.delayed.on_partition(("orders", 0))
        assert only(await answer).error_code == ErrorCode.not_enough_replicas_after_append
        for _ in range(2):
            refused = only(await client.ask(produce(("orders", 0, batch()))))
            assert refused.error_code == ErrorCode.not_enough_replicas
        assert (leader.log.log_end_offset, leader.high_watermark) == (1, 0)
        assert only(await client.ask(produce(("orders", 0, batch()), acks=1))).error_code == 0

    with_broker(tmp_path, scenario, **BROKER)


@every_path
def test_a_request_for_several_partitions_is_answered_when_all_are_decided(
    tmp_path: Path, configs: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", partitions=3, **configs)
        lead(insight, "orders", partition=0)
        lead(insight, "orders", partition=2)
        client, follower = await insight.connect(), await insight.connect()
        sent = produce(
            ("orders", 0, batch()),
            ("orders", 1, batch()),
            ("nowhere", 0, batch()),
            ("orders", 2, batch()),
            timeout_ms=9999,
        )
        answer = await asked(insight, client, sent)
        await follow(follower, "orders", 1, partition=2)
        assert not answer.done()
        lead(insight, "orders", epoch=2)
        codes = [told.error_code for told in answers(await answer)]
        moved, gone = ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition
        assert codes == [moved, 0, gone, 0]

    with_broker(tmp_path, scenario, **BROKER)


@pytest.mark.parametrize("leave", ["close", "vanish"])
def test_a_client_that_disconnects_while_it_waits_leaves_nothing(
    tmp_path: Path, leave: str
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders")
        client = await insight.connect()
        await client.send(produce(("orders", 0, batch()), timeout_ms=99_999))
        await until(lambda: insight.delayed.waiting == 1)
        client.vanish() if leave == "vanish" else await client.close()
        await until(lambda: (insight.delayed.waiting, len(insight.timer)) == (0, 0))

    with_broker(tmp_path, scenario, **BROKER)
