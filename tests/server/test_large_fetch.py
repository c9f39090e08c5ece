"""A Fetch of many due partitions takes turns with others, and misses nothing meanwhile.

Each turn here has two partitions, so that few are many.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.server.delayed import large_fetch
from barnabas.server.fetching.fetch_collector import FetchCollector
from barnabas.server.fetching.fetch_responder import FetchResponder
from barnabas.server.handlers import fetch as fetch_handler
from tests.replication.leading import F2, ME
from tests.server.followed import BROKER, lead
from tests.server.raw import (
    NOW,
    Insight,
    batch,
    fetch,
    produce,
    until,
    with_broker,
)
from tests.server.test_fetch import filled, only
from tests.server.test_fetch_resting import WAIT_MS, Session, at_rest, by_index, indexes
from tests.server.test_fetch_sessions import asked

AT_ONCE = 2
NONE, FENCED_LEADER_EPOCH = 0, 74
SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH = 70, 71


class Turns:
    """The partitions of each turn, and what happens between the turns."""

    def __init__(self) -> None:
        self.parts: list[list[int]] = []
        self.between: dict[int, Callable[[], object]] = {}  # by the number of the turn before

        self.has_ended = True
        self.shared = 0  # turns of the loop with two parts

    def on_turn(self, part: list[int]) -> None:
        self.shared += not self.has_ended
        self.has_ended = False
        asyncio.get_running_loop().call_soon(setattr, self, "has_ended", True)
        self.parts.append(part)
        happens = self.between.pop(len(self.parts), None)
        if happens is not None:
            asyncio.get_running_loop().call_soon(happens)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    seen = Turns()
    collect_part = FetchCollector.collect_part

    def counted(self: FetchCollector, fetched: Any, part: Any, *others: Any) -> Any:
        seen.on_turn([each.partition.partition for each in part])
        return collect_part(self, fetched, part, *others)

    monkeypatch.setattr(FetchCollector, "collect_part", counted)
    monkeypatch.setattr(large_fetch, "AT_ONCE", AT_ONCE)
    monkeypatch.setattr(large_fetch, "MOST_IN_A_TURN", AT_ONCE)
    return seen


def named(partitions: int, offset: int = 0) -> list[tuple[str, int, int]]:
    return [("orders", index, offset) for index in range(partitions)]


def in_rows(count: int) -> list[list[int]]:
    return [list(range(start, min(start + AT_ONCE, count))) for start in range(0, count, AT_ONCE)]


def test_another_request_is_served_between_two_turns(tmp_path: Path, turns: Turns) -> None:
    async def scenario(insight: Insight) -> None:
        client, other = await filled(insight, "orders", batches=1, partitions=5), []
        for turn in (1, 2):
            turns.between[turn] = lambda: other.append(len(turns.parts))
        answer = await client.ask(fetch(*named(5)))
        assert indexes(answer) == [0, 1, 2, 3, 4]
        assert all(each.records for each in by_index(answer).values())
        assert (turns.parts, other) == (in_rows(5), [1, 2])

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_request_that_is_decoded_in_a_thread_is_served_as_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session_epoch: int
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=1, partitions=5)
        request = fetch(*named(5), session_epoch=session_epoch)
        expected = (await client.ask(request)).responses
        monkeypatch.setattr(fetch_handler, "LARGE_REQUEST", 50)
        for _ in range(2):  # the second one is known, partition by partition
            assert (await client.ask(request)).responses == expected
        client = await insight.connect()
        await client.send(request[:3] + bytes([request[3] - 4]) + request[4:-4])
        assert await client.is_closed()

    with_broker(tmp_path, scenario)


def test_a_client_that_disconnects_while_its_request_is_decoded_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=0, partitions=5)
        monkeypatch.setattr(fetch_handler, "LARGE_REQUEST", 50)
        await client.send(fetch(*named(5), session_epoch=-1, max_wait_ms=WAIT_MS))
        await until(lambda: insight.delayed.consumers.listening == 5)
        client.vanish()
        await insight.is_at_rest()
        await until(lambda: len(insight.state.work) == 0)
        assert insight.sessions.count.cached == 0

    with_broker(tmp_path, scenario)


def test_two_large_fetches_do_not_share_a_turn(tmp_path: Path, turns: Turns) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=1, partitions=9)
        others = [await insight.connect() for _ in range(3)]
        answers = await asyncio.gather(*(each.ask(fetch(*named(9))) for each in (client, *others)))
        assert [indexes(answer) for answer in answers] == [list(range(9))] * 4
        assert (len(turns.parts), turns.shared) == (20, 0)

    with_broker(tmp_path, scenario)


def test_a_fetch_of_few_partitions_needs_no_turns(tmp_path: Path, turns: Turns) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=1, partitions=5)
        assert indexes(await client.ask(fetch(*named(AT_ONCE)))) == [0, 1]
        assert turns.parts == []

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("session_epoch", [-1, 0])
@pytest.mark.parametrize("max_bytes", [1, 1500, 2500, 2**20])
def test_the_response_has_the_same_records_as_one_that_is_made_in_one_turn(
    tmp_path: Path,
    turns: Turns,
    monkeypatch: pytest.MonkeyPatch,
    max_bytes: int,
    session_epoch: int,
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=2, partitions=5)
        request = fetch(*named(5), ("gone", 0, 0), max_bytes=max_bytes, session_epoch=session_epoch)
        in_turns = (await client.ask(request)).responses
        assert len(turns.parts) == 3
        monkeypatch.setattr(large_fetch, "MOST_IN_A_TURN", 1000)
        other = await insight.connect()
        assert in_turns == (await other.ask(request)).responses
        assert len(turns.parts) == 3

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("session_epoch", [-1, 0])
@pytest.mark.parametrize("written_after", [1, 3, 4, 6])
def test_a_record_that_comes_in_any_turn_ends_the_wait(
    tmp_path: Path, turns: Turns, written_after: int, session_epoch: int
) -> None:
    """The first three turns look whether to wait; the next three look again while it waits."""

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=0, partitions=5)

        def write() -> None:
            leader = insight.leader("orders", 0)
            leader.append(memoryview(bytearray(batch())), NOW)
            insight.delayed.on_append(leader)

        turns.between[written_after] = write
        waiting = fetch(*named(5), session_epoch=session_epoch, max_wait_ms=WAIT_MS)
        answer = by_index(await client.ask(waiting))
        assert [index for index in answer if answer[index].records] == [0]
        assert insight.delayed.waiting == 0

    with_broker(tmp_path, scenario)


def test_a_wait_ends_with_its_time(tmp_path: Path, turns: Turns) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=0, partitions=5)
        answer = await client.ask(fetch(*named(5), session_epoch=0, max_wait_ms=20))
        assert indexes(answer) == [0, 1, 2, 3, 4]
        assert (insight.delayed.waiting, insight.delayed.watched) == (0, 0)

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("gone_after", [1, 4, 6])
def test_a_client_that_disconnects_leaves_no_wait_and_no_session(
    tmp_path: Path, turns: Turns, gone_after: int
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=0, partitions=5)
        turns.between[gone_after] = client.vanish
        await client.send(fetch(*named(5), session_epoch=0, max_wait_ms=WAIT_MS))
        await until(lambda: len(turns.parts) >= gone_after)
        await insight.is_at_rest()
        await until(lambda: len(insight.state.work) == 0)
        assert len(insight.sessions) == 0

    with_broker(tmp_path, scenario)


def test_a_client_that_disconnects_while_the_disk_is_read_leaves_no_session(
    tmp_path: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = asyncio.Event()
    load_cold = FetchResponder.load_cold

    async def slow(self: FetchResponder, *located: Any) -> Any:
        await read.wait()
        return await load_cold(self, *located)

    monkeypatch.setattr(FetchResponder, "load_cold", slow)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=1, partitions=5)
        await client.send(fetch(*named(5), session_epoch=0))
        await until(lambda: len(turns.parts) == 3)
        client.vanish()
        await insight.is_at_rest()
        read.set()
        await until(lambda: len(insight.state.work) == 0)
        assert len(insight.sessions) == 0

    with_broker(tmp_path, scenario)


def test_what_a_follower_has_fetched_since_is_not_taken_back_by_a_later_part(
    tmp_path: Path, turns: Turns
) -> None:
    """As when it was restarted, and its connection of before is not known to be lost."""

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=2, partitions=5)
        led = [lead(insight, "orders", (ME, F2), partition=index) for index in range(5)]

        def fetch_less() -> None:
            now_ms = insight.state.time.now_ms() + 1_000
            led[4].on_follower_fetch(F2, 1, 0, now_ms)

        turns.between[1] = fetch_less
        await Session(client, replica_id=int(F2), epoch=1).fetch(*named(5, offset=2))
        assert [leader.high_watermark for leader in led] == [2] * 4 + [1]

    with_broker(tmp_path, scenario, **BROKER)


def test_a_role_that_changes_between_turns_is_checked_again(tmp_path: Path, turns: Turns) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=1, partitions=5)
        for index in range(5):
            lead(insight, "orders", (ME,), partition=index, epoch=5)
        turns.between[1] = lambda: lead(insight, "orders", (ME,), partition=4, epoch=6)
        answer = by_index(await client.ask(fetch(*named(5), epoch=5)))
        assert [answer[index].error_code for index in range(5)] == [NONE] * 4 + [
            FENCED_LEADER_EPOCH
        ]

    with_broker(tmp_path, scenario, **BROKER)


@pytest.mark.parametrize("forgotten", [4, 5])
def test_a_session_that_goes_on_with_another_fetch_refuses_this_one(
    tmp_path: Path, turns: Turns, forgotten: int
) -> None:
    """Partitions that the other fetch forgot listen no more."""

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=0, partitions=5)
        session = await client.ask(fetch(*named(5), session_epoch=0))
        forget = [("orders", index) for index in range(forgotten)]
        other = asked(session.session_id, 2, forget=forget)
        turns.parts.clear()
        turns.between[1] = lambda: insight.sessions.begin(other, by_id=False)
        refused = await client.ask(fetch(session_id=session.session_id, session_epoch=1))
        assert refused.error_code in (SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH)
        assert turns.parts == [[0, 1]]
        assert insight.delayed.consumers.listening == 0

    with_broker(tmp_path, scenario)


def test_a_waiting_session_of_which_all_changed_at_once_takes_turns(
    tmp_path: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a new controller sends all partitions."""

    async def scenario(insight: Insight) -> None:
        await filled(insight, "orders", batches=0, partitions=5)
        session = Session(await insight.connect())
        await at_rest(insight, session, 5)
        answer = session.wait(insight)
        await until(lambda: insight.delayed.waiting == 1)
        turns.parts.clear()
        insight.delayed.on_partitions([("orders", index) for index in range(5)])
        assert (await answer).responses == ()
        assert turns.parts == in_rows(5)
        await session.fetch()
        assert insight.delayed.consumers.listening == 5, "there was nothing new: they rest again"

    with_broker(tmp_path, scenario)


def test_a_follower_reports_its_progress_in_turns(tmp_path: Path, turns: Turns) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", batches=1, partitions=5)
        led = [lead(insight, "orders", (ME, F2), partition=index) for index in range(5)]
        session = Session(client, replica_id=int(F2), epoch=1)
        told = await session.fetch(*named(5, offset=1))
        assert [leader.high_watermark for leader in led] == [1] * 5
        assert [each.high_watermark for each in by_index(told).values()] == [1] * 5
        assert len(turns.parts) == 3
        answer = session.wait(insight)
        await until(lambda: insight.delayed.followers.listening == 5)
        producer = await insight.connect()
        await producer.ask(produce(("orders", 3, batch()), acks=1))
        assert only(await answer).partition_index == 3

    with_broker(tmp_path, scenario, **BROKER)
