"""Fetches that wait: for what and how long, what wakes them, and which need not wait at all."""

import asyncio
import gc
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from barnabas.base.ids import LeaderEpoch
from barnabas.log.log import Log
from barnabas.log.segment.file_slice import FileSlice
from barnabas.server.delayed.delayed_fetch import DelayedFetch
from barnabas.server.fetching.fetch_collector import FetchCollector
from tests.server.raw import Insight, batch, fetch, produce, until, with_broker
from tests.server.test_fetch import BY_ID, VERSIONS, filled, offsets, only


def test_a_fetch_without_time_to_wait_is_answered_empty(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=0)
        for wait in (0, -1):
            assert not only(await client.ask(fetch(("orders", 0, 0), max_wait_ms=wait))).records
        assert insight.delayed.waiting == 0

    with_broker(tmp_path, scenario)


def _waits(insight: Insight, count: int) -> bool:
    return insight.delayed.waiting == count


def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        producer = await filled(insight, "orders", batches=0)
        consumer = await insight.connect()
        await consumer.send(fetch(("orders", 0, 0), max_wait_ms=60_000, min_bytes=2500))
        for waiting in (1, 1, 0):
            await until(lambda: insight.delayed.waiting == 1)
            await producer.ask(produce(("orders", 0, batch(bytes(1000)))))
            await until(partial(_waits, insight, waiting))
        await consumer.receive()

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_that_waited_is_answered_by_a_shortcut_as_by_the_long_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, isolation_level: int
) -> None:
    looked: list[int] = []
    collect = FetchCollector.collect

    def counted(self: FetchCollector, request: Any, context: Any, version: int, client: Any) -> Any:
        looked.append(version)
        return collect(self, request, context, version, client)

    monkeypatch.setattr(FetchCollector, "collect", counted)

    async def scenario(insight: Insight) -> None:
        producer = await filled(insight, "orders", batches=2)
        consumer, other = await insight.connect(), await insight.connect()
        topic = insight.topic_id("orders") if version >= BY_ID else "orders"
        for offset in (2, 3, 4):  # the first of a connection, and those after it
            asked = partial(
                fetch, (topic, 0, offset), version=version, isolation_level=isolation_level
            )
            looked.clear()
            answer = asyncio.ensure_future(consumer.ask(asked(max_wait_ms=60_000)))
            await until(lambda: insight.delayed.waiting == 1)
            await producer.ask(produce(("orders", 0, batch(bytes(1000)))))
            waited = await answer
            assert len(looked) == 1, "the long way was taken before it waited, and not again"
            assert offsets(only(waited)) == [offset]
            long = await other.ask(asked(min_bytes=2**20, max_wait_ms=0))
            assert len(looked) == 2, "less than was asked for: no shortcut"
            assert only(waited) == only(long)

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", [12, 17])
def test_a_waiting_fetch_gets_an_error_when_the_leader_changes(
    tmp_path: Path, version: int
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=1)
        topic = insight.topic_id("orders") if version >= BY_ID else "orders"
        leader = insight.leader("orders")
        asked = fetch((topic, 0, 1), version=version, epoch=leader.epoch, max_wait_ms=60_000)
        answer = asyncio.ensure_future(client.ask(asked))
        await until(lambda: insight.delayed.waiting == 1)
        leader.epoch = LeaderEpoch(leader.epoch + 1)
        insight.delayed.consumers.check_and_complete(("orders", 0))
        assert only(await answer).error_code == ErrorCode.fenced_leader_epoch

    with_broker(tmp_path, scenario)


def test_a_fetch_that_waited_for_what_the_page_cache_has_lost_is_read_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(insight: Insight) -> None:
        producer = await filled(insight, "orders", batches=1)
        consumer = await insight.connect()
        answer = asyncio.ensure_future(
            consumer.ask(fetch(("orders", 0, 1), max_wait_ms=60_000, version=12))
        )
        await until(lambda: insight.delayed.waiting == 1)
        loaded: list[int] = []
        load = FileSlice.load

        def counted(self: FileSlice) -> bytes:
            loaded.append(self.size)
            return load(self)

        monkeypatch.setattr(FileSlice, "warm", lambda _: None)
        monkeypatch.setattr(FileSlice, "load", counted)
        monkeypatch.setattr(Log, "read_warm", lambda *_: None)
        await producer.ask(produce(("orders", 0, batch(bytes(1000)))))
        assert offsets(only(await answer)) == [1]
        assert len(loaded) == 1

    with_broker(tmp_path, scenario)


def test_a_fetch_that_waited_leaves_nothing_to_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[weakref.ref[DelayedFetch]] = []
    begin = DelayedFetch.__init__

    def noted(self: DelayedFetch, *arguments: Any) -> None:
        begin(self, *arguments)
        waited.append(weakref.ref(self))

    monkeypatch.setattr(DelayedFetch, "__init__", noted)

    async def scenario(insight: Insight) -> None:
        producer = await filled(insight, "orders", batches=0)
        consumer = await insight.connect()
        gc.disable()
        try:
            for offset in range(3):
                answer = asyncio.ensure_future(
                    consumer.ask(fetch(("orders", 0, offset), max_wait_ms=60_000, version=12))
                )
                await until(lambda: insight.delayed.waiting == 1)
                await producer.ask(produce(("orders", 0, batch(bytes(1000)))))
                await answer
            assert [each() for each in waited] == [None] * 3
        finally:
            gc.enable()

    with_broker(tmp_path, scenario)


def test_a_fetch_that_waits_for_many_bytes_reads_none_until_they_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    warm, read_warm = FileSlice.warm, Log.read_warm

    def counted(self: Log, offset: Any, max_bytes: int, upto: Any) -> Any:
        read.append(max_bytes)
        return read_warm(self, offset, max_bytes, upto)

    def warmed(self: FileSlice) -> Any:
        read.append(self.size)
        return warm(self)

    monkeypatch.setattr(FileSlice, "warm", warmed)
    monkeypatch.setattr(Log, "read_warm", counted)

    async def scenario(insight: Insight) -> None:
        producer = await filled(insight, "orders", batches=0)
        consumer = await insight.connect()
        asked = fetch(("orders", 0, 0), max_wait_ms=60_000, min_bytes=5_000, version=12)
        answer = asyncio.ensure_future(consumer.ask(asked))
        await until(lambda: insight.delayed.waiting == 1)
        read.clear()
        for _ in range(4):
            await producer.ask(produce(("orders", 0, batch(bytes(1000)))))
        assert read == []
        await producer.ask(produce(("orders", 0, batch(bytes(1000)))))
        assert offsets(only(await answer)) == [0, 1, 2, 3, 4]

    with_broker(tmp_path, scenario)


def test_a_fetch_that_waited_in_vain_is_answered_with_what_there_is(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=1)
        began = asyncio.get_running_loop().time()
        sent = fetch(("orders", 0, 0), max_wait_ms=60, min_bytes=10**6)
        assert offsets(only(await client.ask(sent))) == [0]
        # uvloop tells whole milliseconds, so the difference of two times may be one short.
        assert asyncio.get_running_loop().time() - began > 0.058

    with_broker(tmp_path, scenario)


def test_a_fetch_does_not_wait_for_more_than_its_answer_may_hold(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=3)
        sent = fetch(("orders", 0, 0), max_wait_ms=60_000, min_bytes=10**6, max_bytes=1000)
        assert offsets(only(await client.ask(sent))) == [0]

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
def test_a_fetch_does_not_wait_when_the_next_batch_does_not_fit(tmp_path: Path, limit: str) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=3)
        options: dict[str, Any] = {limit: 2500}
        sent = fetch(("orders", 0, 0), max_wait_ms=60_000, min_bytes=2500, **options)
        assert offsets(only(await client.ask(sent))) == [0, 1]

    with_broker(tmp_path, scenario)


def test_a_fetch_does_not_wait_at_the_end_of_a_segment(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", segment_bytes="2500")
        client = await insight.connect()
        for _ in range(3):
            await client.ask(produce(("orders", 0, batch(bytes(1000)))))
        sent = fetch(("orders", 0, 0), max_wait_ms=60_000, min_bytes=3000)
        assert offsets(only(await client.ask(sent))) == [0, 1]

    with_broker(tmp_path, scenario)


def test_a_fetch_of_nothing_is_answered_at_once(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        response = await client.ask(fetch(max_wait_ms=60_000))
        assert response.responses == ()

    with_broker(tmp_path, scenario)


def test_requests_that_wait_on_a_deleted_topic_get_an_error(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=0)
        await client.send(fetch(("orders", 0, 0), max_wait_ms=60_000, version=4))
        await until(lambda: insight.delayed.waiting == 1)
        await insight.running.broker.topics.delete("orders")
        await client.receive()

    with_broker(tmp_path, scenario)


def test_a_session_that_waits_is_woken_by_any_of_its_partitions(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        producer = await filled(insight, "orders", partitions=3, batches=0)
        consumer = await insight.connect()
        wanted = [("orders", index, 0) for index in range(3)]
        session = (await consumer.ask(fetch(*wanted, session_epoch=0))).session_id
        waiting = fetch(session_id=session, session_epoch=1, max_wait_ms=60_000)
        answer = asyncio.ensure_future(consumer.ask(waiting))
        await until(lambda: insight.delayed.consumers.listening == 3)
        await producer.ask(produce(("orders", 2, batch())))
        assert only(await answer).partition_index == 2

    with_broker(tmp_path, scenario)
