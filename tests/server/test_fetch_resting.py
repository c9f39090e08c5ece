"""Partitions of a fetch session that rest: what makes them due, and what they cost until then."""

import asyncio
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.ids import LeaderEpoch
from barnabas.server.fetching import cached_partitions
from barnabas.server.fetching.cached_partitions import CachedPartition, FetchSession, Reader
from barnabas.server.fetching.fetch_collector import FetchCollector
from barnabas.server.handlers import fetch as fetch_handler
from barnabas.wire.fetch.fetch_codec import FetchPartition
from tests.replication.leading import F2, F3, ME
from tests.server.followed import BROKER, lead
from tests.server.raw import Insight, RawClient, batch, fetch, produce, until, with_broker
from tests.server.test_fetch import filled, offsets, only

WAIT_MS = 60_000


class Session:
    """An incremental fetch after the other, in one session."""

    def __init__(self, client: RawClient, **options: Any) -> None:
        self._client = client
        self._options = options
        self._session: dict[str, Any] = {"session_id": 0, "session_epoch": 0}

    async def fetch(self, *wanted: tuple[str, int, int], **options: Any) -> Any:
        told = await self._client.ask(fetch(*wanted, **self._session, **self._options, **options))
        epoch = self._session["session_epoch"] + 1
        self._session = {"session_id": told.session_id, "session_epoch": epoch}
        return told

    def wait(self, insight: Insight) -> "asyncio.Task[Any]":
        return asyncio.ensure_future(self.fetch(max_wait_ms=WAIT_MS))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many partitions each look of a fetch went through."""
    seen: list[int] = []
    collect = FetchCollector.collect

    def counted(self: FetchCollector, request: Any, context: Any, version: int, client: Any) -> Any:
        seen.append(len(context.wanted))
        return collect(self, request, context, version, client)

    monkeypatch.setattr(FetchCollector, "collect", counted)
    return seen


async def at_rest(insight: Insight, session: Session, partitions: int) -> None:
    """Open the session of an empty topic, and let all its partitions rest."""
    await session.fetch(*(("orders", index, 0) for index in range(partitions)))
    await session.fetch()
    assert insight.delayed.consumers.listening == partitions


def test_a_fetch_looks_only_at_what_changed(tmp_path: Path, looks: list[int]) -> None:
    async def scenario(insight: Insight) -> None:
        producer = await filled(insight, "orders", partitions=50, batches=0)
        session = Session(await insight.connect())
        await at_rest(insight, session, 50)
        looks.clear()
        for _ in range(3):
            assert (await session.fetch()).responses == ()
        answer = session.wait(insight)
        await until(lambda: insight.delayed.waiting == 1)
        await producer.ask(produce(("orders", 31, batch())))
        assert offsets(only(await answer)) == [0]
        assert looks == [0, 0, 0, 0, 1]
        assert insight.delayed.consumers.listening == 49

    with_broker(tmp_path, scenario)


def test_many_changes_in_one_turn_of_the_loop_are_one_look(
    tmp_path: Path, looks: list[int]
) -> None:
    async def scenario(insight: Insight) -> None:
        await filled(insight, "orders", partitions=50, batches=0)
        session = Session(await insight.connect())
        await at_rest(insight, session, 50)
        looks.clear()
        answer = session.wait(insight)
        await until(lambda: insight.delayed.waiting == 1)
        insight.delayed.on_partitions([("orders", index) for index in range(20)])
        insight.delayed.on_high_watermark(("orders", 30))
        await until(lambda: len(looks) == 2)
        assert (looks, answer.done()) == ([0, 21], False)
        assert insight.delayed.consumers.listening == 50, "there was nothing new: they rest again"
        answer.cancel()

    with_broker(tmp_path, scenario)


def test_a_client_learns_of_a_log_that_begins_later(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=3)
        session = Session(client)
        await session.fetch(("orders", 0, 3))
        assert (await session.fetch()).responses == ()
        insight.leader("orders").delete_records_before(2)
        insight.delayed.on_log_start(("orders", 0))
        assert only(await session.fetch()).log_start_offset == 2
        assert (await session.fetch()).responses == ()

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", [4, 5, 9, 12])
def test_a_client_without_a_session_costs_what_changed_too(
    tmp_path: Path, looks: list[int], version: int
) -> None:
    asking = partial(fetch, version=version)

    async def scenario(insight: Insight) -> None:
        producer = await filled(insight, "orders", partitions=20, batches=0)
        client = await insight.connect()
        wanted = [("orders", index, 0) for index in range(20)]
        first = await client.ask(asking(*wanted))
        looks.clear()
        for turn in range(4):  # in another order each time, as librdkafka does
            rotated = wanted[turn:] + wanted[:turn]
            answer = await client.ask(asking(*rotated))
            assert indexes(answer) == [index for _, index, _ in rotated]
            assert by_index(answer) == by_index(first)
        assert looks == [20, 0, 0, 0]
        assert insight.delayed.consumers.listening == 20
        waiting = asyncio.ensure_future(client.ask(asking(*wanted, max_wait_ms=WAIT_MS)))
        await until(lambda: insight.delayed.waiting == 1)
        await producer.ask(produce(("orders", 7, batch())))
        answer = await waiting
        assert indexes(answer) == list(range(20))
        assert {index for index, each in by_index(answer).items() if each.records} == {7}
        assert looks[-2:] == [0, 1]
        # A partition named no more is not listened to; one named at another offset is due.
        await client.ask(asking(("orders", 3, 0), ("orders", 7, 1), max_wait_ms=0))
        assert (looks[-1], insight.delayed.consumers.listening) == (1, 2)
        client.vanish()
        await until(lambda: insight.delayed.consumers.listening == 0)

    with_broker(tmp_path, scenario)


def by_index(answer: Any) -> dict[int, Any]:
    return {p.partition_index: p for topic in answer.responses for p in topic.partitions}


def indexes(answer: Any) -> list[int]:
    return [p.partition_index for topic in answer.responses for p in topic.partitions]


def test_a_partition_that_is_named_twice_counts_once_as_named_last(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=2, batches=3)
        for _ in range(3):
            asked = fetch(("orders", 0, 0), ("orders", 1, 2), ("orders", 0, 2))
            assert [offsets(p) for p in by_index(await client.ask(asked)).values()] == [[2], [2]]
            assert indexes(await client.ask(asked)) == [0, 1]

    with_broker(tmp_path, scenario)


def test_a_client_that_names_too_many_partitions_has_nothing_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[int]
) -> None:
    monkeypatch.setattr(fetch_handler, "MOST_NAMED", 3)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=4, batches=0)
        for partitions in (3, 4):
            wanted = [("orders", index, 0) for index in range(partitions)]
            for _ in range(3):
                assert indexes(await client.ask(fetch(*wanted))) == list(range(partitions))
        assert looks == [3, 3, 0, 4, 4, 4]
        assert insight.delayed.consumers.listening == 0

    with_broker(tmp_path, scenario)


def test_a_fetch_of_one_partition_between_those_of_many_is_answered_for_itself(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=3, batches=1)
        wanted = [("orders", index, 1) for index in range(3)]
        others: list[dict[str, Any]] = [{"version": 10}, {"version": 11, "isolation_level": 1}]
        for _ in range(3):
            assert indexes(await client.ask(fetch(*wanted, version=11))) == [0, 1, 2]
            for options in others:
                one = fetch(("orders", 2, 1), **options)
                fresh = await (await insight.connect()).ask(one)
                assert await client.ask(one) == fresh

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("change", [{"isolation_level": 1}, {"version": 11}, {"rack_id": "there"}])
def test_a_client_without_a_session_may_change_what_it_asks_for(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=3, batches=1)
        wanted = [("orders", index, 1) for index in range(3)]
        for _ in range(3):
            for options in ({}, change):
                asked = fetch(*wanted, **options)
                fresh = await (await insight.connect()).ask(asked)
                assert await client.ask(asked) == fresh

    with_broker(tmp_path, scenario)


def _gone(insight: Insight) -> None:
    insight.running.broker.replicas.remove(insight.leader("orders").topic_partition)


def _next_epoch(insight: Insight) -> None:
    leader = insight.leader("orders")
    leader.epoch = LeaderEpoch(leader.epoch + 1)


@pytest.mark.parametrize(
    ("happens", "code"),
    [(_gone, "not_leader_or_follower"), (_next_epoch, "fenced_leader_epoch")],
)
def test_a_resting_partition_whose_role_changes_is_answered_at_once(
    tmp_path: Path, happens: Callable[[Insight], None], code: str
) -> None:
    async def scenario(insight: Insight) -> None:
        await filled(insight, "orders", partitions=3, batches=0)
        session = Session(await insight.connect(), epoch=insight.leader("orders").epoch)
        await at_rest(insight, session, 3)
        answer = session.wait(insight)
        await until(lambda: insight.delayed.waiting == 1)
        happens(insight)
        insight.delayed.on_partition(("orders", 0))
        assert only(await answer).error_code.name == code

    with_broker(tmp_path, scenario)


def test_nothing_listens_once_a_session_is_over(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await filled(insight, "orders", partitions=5, batches=0)
        client = await insight.connect()
        session = Session(client)
        await at_rest(insight, session, 5)
        await session.fetch(forgotten=[("orders", 4)])
        assert insight.delayed.consumers.listening == 4
        # A full fetch that names the session ends it.
        await client.ask(fetch(("orders", 0, 0), session_epoch=-1, **session_id(session)))
        assert insight.delayed.consumers.listening == 0

    with_broker(tmp_path, scenario)


def session_id(session: Session) -> dict[str, Any]:
    return {"session_id": session._session["session_id"]}


def test_another_kind_of_reader_gets_what_it_may_read(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME, F2))
        client = await insight.connect()
        await client.ask(produce(("orders", 0, batch()), acks=1))
        session = Session(client, epoch=1)
        await session.fetch(("orders", 0, 0))
        assert (await session.fetch()).responses == (), "nothing is committed yet"
        assert offsets(only(await session.fetch(replica_id=F2))) == [0]

    with_broker(tmp_path, scenario, **BROKER)


def test_a_resting_follower_stays_in_sync_as_long_as_its_session_fetches(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME, F2, F3))
        client = await insight.connect()
        session = Session(client, replica_id=F2, epoch=1)
        await session.fetch(("orders", 0, 0))
        for _ in range(2):
            await session.fetch()
        assert insight.delayed.followers.listening == 1
        leader = insight.leader("orders")
        resting, absent = (leader.follower(broker) for broker in (F2, F3))
        assert resting is not None
        assert absent is not None
        first = resting.last_caught_up_ms
        await until_later(first)
        await session.fetch()
        assert resting.last_caught_up_ms > first
        # The log grows: from now on it is behind, whatever it fetches.
        await client.ask(produce(("orders", 0, batch()), acks=1))
        assert insight.delayed.followers.listening == 0
        last = resting.last_caught_up_ms
        await until_later(last)
        assert offsets(only(await session.fetch())) == [0]
        assert resting.last_caught_up_ms == last
        assert absent.last_caught_up_ms < first

    with_broker(tmp_path, scenario, **BROKER)


async def until_later(ms: float) -> None:
    loop = asyncio.get_running_loop()
    await until(lambda: loop.time() * 1000 > ms + 1)


def test_a_follower_that_waits_is_woken_by_an_append_after_the_high_watermark_moved(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME, F2, F3))
        producer = await insight.connect()
        second, third = [
            Session(await insight.connect(), replica_id=replica, epoch=1) for replica in (F2, F3)
        ]
        for session in (second, third):
            await session.fetch(("orders", 0, 0))
            await session.fetch()
        await producer.ask(produce(("orders", 0, batch()), acks=1))
        for session in (second, third):
            assert offsets(only(await session.fetch())) == [0]
        answer = asyncio.ensure_future(second.fetch(("orders", 0, 1), max_wait_ms=WAIT_MS))
        await until(lambda: insight.delayed.waiting == 1)
        await third.fetch(("orders", 0, 1))
        assert insight.leader("orders").high_watermark == 1
        await until(lambda: insight.delayed.followers.listening == 1)
        await producer.ask(produce(("orders", 0, batch()), acks=1))
        got = only(await answer)
        assert (offsets(got), got.high_watermark) == ([1], 1)

    with_broker(tmp_path, scenario, **BROKER)


@pytest.mark.parametrize("has_session", [True, False])
def test_a_fetch_for_many_bytes_is_woken_by_each_batch_until_they_are_there(
    tmp_path: Path, has_session: bool, looks: list[int]
) -> None:
    async def scenario(insight: Insight) -> None:
        producer = await filled(insight, "orders", partitions=2, batches=0)
        client = await insight.connect()
        wanted = [("orders", 0, 0), ("orders", 1, 0)]
        options: dict[str, Any] = {"min_bytes": 2500, "max_wait_ms": WAIT_MS}
        if has_session:
            session = Session(client)
            await at_rest(insight, session, 2)
            answer = asyncio.ensure_future(session.fetch(**options))
        else:
            answer = asyncio.ensure_future(client.ask(fetch(*wanted, **options)))
        await until(lambda: insight.delayed.waiting == 1)
        for _ in range(3):
            looks.clear()
            await producer.ask(produce(("orders", 0, batch(bytes(1000)))))
            await until(lambda: len(looks) == 1)
        assert offsets(by_index(await answer)[0]) == [0, 1, 2]

    with_broker(tmp_path, scenario)


def test_a_follower_does_not_rest_on_a_leader_that_does_not_know_its_offset(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME, F2))
        producer = await insight.connect()
        session = Session(await insight.connect(), replica_id=F2)  # it does not say its epoch
        await session.fetch(("orders", 0, 0))
        await session.fetch()
        await producer.ask(produce(("orders", 0, batch()), acks=1))
        assert offsets(only(await session.fetch())) == [0]
        answer = asyncio.ensure_future(session.fetch(("orders", 0, 1), max_wait_ms=50))
        await until(lambda: insight.delayed.waiting == 1)
        leader = lead(insight, "orders", (ME, F2), epoch=2)
        await answer
        await session.fetch()
        assert leader.high_watermark == 1

    with_broker(tmp_path, scenario, **BROKER)


def test_a_session_that_ends_while_its_fetch_looks_leaves_no_listeners(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await filled(insight, "orders", partitions=5, batches=0)
        session = Session(await insight.connect())
        await at_rest(insight, session, 5)
        answer = asyncio.ensure_future(session.fetch(max_wait_ms=50))
        await until(lambda: insight.delayed.waiting == 1)
        insight.delayed.on_partitions([("orders", index) for index in range(5)])
        insight.sessions._end(session_id(session)["session_id"])
        assert (await answer).error_code.name == "fetch_session_id_not_found"
        assert (len(insight.sessions), insight.delayed.consumers.listening) == (0, 0)

    with_broker(tmp_path, scenario)


def test_a_client_with_a_rack_is_looked_at_with_every_fetch_where_replicas_are_selected(
    tmp_path: Path, looks: list[int]
) -> None:
    async def scenario(insight: Insight) -> None:
        await filled(insight, "orders", partitions=3, batches=0)
        session = Session(await insight.connect(), rack_id="there")
        await session.fetch(*(("orders", index, 0) for index in range(3)))
        looks.clear()
        for _ in range(3):
            await session.fetch()
        assert looks == [3, 3, 3]

    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with_broker(tmp_path, scenario, replica_selector_class=selector)


def test_a_follower_out_of_sync_is_looked_at_with_every_fetch(
    tmp_path: Path, looks: list[int]
) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        lead(insight, "orders", (ME,), replicas=(ME, F2))
        session = Session(await insight.connect(), replica_id=F2, epoch=1)
        await session.fetch(("orders", 0, 0))
        looks.clear()
        for _ in range(3):
            await session.fetch()
        assert looks == [1, 1, 1]

    with_broker(tmp_path, scenario, **BROKER)


def test_a_client_that_left_partitions_out_is_not_kept_waiting_long(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        session = Session(await filled(insight, "orders", partitions=2, batches=1))
        await session.fetch(("orders", 0, 0), ("orders", 1, 1))
        # It holds the record of partition 0, and asks for what it has all of.
        answer = await session.fetch(forgotten=[("orders", 0)], max_wait_ms=WAIT_MS)
        assert answer.responses == ()

    with_broker(tmp_path, scenario)


def test_a_client_that_does_not_come_back_for_what_it_left_out_waits_longer_each_time() -> None:
    session = FetchSession(1, False, Reader(-1, False), now_ms=0)
    wanted = CachedPartition("orders", FetchPartition(0, 0, 1))
    session.add(wanted)
    assert session.wait_ms(500) == 500
    session.name("orders", [FetchPartition(1, 0, 1)])
    session.forget("orders", [1])
    assert [session.wait_ms(500) for _ in range(9)] == [4, 8, 16, 32, 64, 128, 256, 500, 500]
    session.name("orders", [FetchPartition(1, 0, 1)])
    session.on_records_sent(wanted)
    session.forget("orders", [1])
    assert session.wait_ms(500) == 4
    session.name("orders", [FetchPartition(1, 0, 1)])
    assert session.wait_ms(500) == 500, "it came back: nothing is left out"


class CountedId(uuid.UUID):
    """A topic id that counts how often it is hashed, which is slow."""

    hashed = 0

    def __hash__(self) -> int:
        CountedId.hashed += 1
        return super().__hash__()


def test_partitions_are_forgotten_and_named_again_by_topic() -> None:
    session = FetchSession(1, True, Reader(-1, False), now_ms=0)
    topic, most = CountedId(int=7), cached_partitions.MOST_LEFT_OUT + 5
    named = [FetchPartition(index, 0, 1) for index in range(most)]
    CountedId.hashed = 0
    for _ in range(2):
        session.name(topic, named)
        session.forget(topic, range(most))
        assert (len(session), session.topics, session.due) == (0, {}, {})
        assert session.wait_ms(500) < 500, "some are left out"
    assert CountedId.hashed < 30
    session.name(topic, named)
    assert session.wait_ms(500) == 500, "it came back: nothing is left out"
    assert len(session) == most
