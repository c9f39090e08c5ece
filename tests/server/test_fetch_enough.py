"""How much a consumer gets at once, and what it is told of partitions that had no room."""

import uuid
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.ids import Offset
from barnabas.server import node
from barnabas.server.fetch_sessions import TopicKey, Wanted
from barnabas.server.handlers import fetch as fetch_handler
from barnabas.server.handlers.fetch import Fetch
from barnabas.wire.fetch import FetchPartition, FetchRequest
from tests.server.raw import Insight, fetch, with_broker
from tests.server.test_fetch import filled, offsets

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def enough(monkeypatch: pytest.MonkeyPatch, records: int, least: int, each: int) -> None:
    monkeypatch.setattr(fetch_handler, "ENOUGH_RECORDS", records)
    monkeypatch.setattr(fetch_handler, "ENOUGH_BYTES", least)
    monkeypatch.setattr(fetch_handler, "ENOUGH_FOR_EACH", each)


@pytest.mark.parametrize(
    ("records", "least", "min_bytes", "expected"),
    [
        (1, 1, 1, [[0, 1, 2], [], []]),  # what one partition gives is its own affair
        (4, 1, 1, [[0, 1, 2], [0, 1, 2], []]),  # three records were not enough
        (1, 4000, 1, [[0, 1, 2], [0, 1, 2], []]),  # nor were three kilobytes
        (1, 1, 7000, [[0, 1, 2]] * 3),  # who wants more gets more
        (100, 1, 1, [[0, 1, 2]] * 3),
        (1, 7000, 1, [[0, 1, 2]] * 3),
    ],
)
def test_a_consumer_gets_no_further_partitions_when_it_has_enough(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: int,
    least: int,
    min_bytes: int,
    expected: list[list[int]],
) -> None:
    enough(monkeypatch, records, least, 1)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=3)
        wanted = [("orders", index, 0) for index in range(3)]
        for epoch in (0, -1):  # with and without a session
            sent = fetch(*wanted, min_bytes=min_bytes, max_wait_ms=60_000, session_epoch=epoch)
            told = await client.ask(sent)
            assert [offsets(p) for topic in told.responses for p in topic.partitions] == expected

    with_broker(tmp_path, scenario)


def test_who_names_many_partitions_gets_more_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough(monkeypatch, 1, 1, 1500)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=4)
        for named, expected in [(2, 1), (3, 2), (4, 2)]:
            wanted = [("orders", index, 0) for index in range(named)]
            (told,) = (await client.ask(fetch(*wanted))).responses
            assert sum(bool(offsets(partition)) for partition in told.partitions) == expected

    with_broker(tmp_path, scenario)


def test_a_session_comes_to_the_end_of_all_its_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough(monkeypatch, 1, 1, 1)

    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders", partitions=4)
        positions = dict.fromkeys(range(4), 0)
        moved = dict(positions)
        session: dict[str, Any] = {"session_id": 0, "session_epoch": 0}
        while moved:
            wanted = [("orders", index, offset) for index, offset in moved.items()]
            told = await client.ask(fetch(*wanted, **session))
            read = [p for topic in told.responses for p in topic.partitions if offsets(p)]
            moved = {p.partition_index: offsets(p)[-1] + 1 for p in read}
            assert len(moved) == (1 if min(positions.values()) == 0 else 0)
            positions |= moved
            session = {
                "session_id": told.session_id,
                "session_epoch": session["session_epoch"] + 1,
            }
        assert positions == dict.fromkeys(range(4), 3)

    with_broker(tmp_path, scenario)


@pytest.mark.parametrize("selector", [None, RACK_AWARE])
def test_a_partition_without_room_is_told_of_as_if_it_had_been_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, selector: str | None
) -> None:
    made: list[Fetch] = []

    class Seen(Fetch):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(node, "Fetch", Seen)

    async def scenario(insight: Insight) -> None:
        await filled(insight, "orders")
        leader, topic_id = insight.leader("orders"), insight.topic_id("orders")
        leader.log.log_start_offset = Offset(1)
        monkeypatch.setattr(type(leader.log.producers), "first_unstable_offset", 2)
        (handler,) = made
        epochs = (-1, leader.epoch, leader.epoch + 1)
        topics: tuple[TopicKey, ...] = ("orders", "nowhere", topic_id, uuid.UUID(int=9))
        passed = 0
        for topic, offset, epoch, last_epoch, committed, replica in product(
            topics,
            range(-1, 5),
            epochs,
            epochs,
            (False, True),
            (-1, -2, 7),
        ):
            request = FetchRequest(replica, 0, 1, 10**6, committed, 0, -1, [], [], "")
            wanted = Wanted(topic, FetchPartition(0, offset, 10**6, epoch, last_epoch))
            looked = handler._look(wanted, 0, 10**6, request, 17)
            found = handler._passed_over(wanted, request)
            assert found in (None, looked)
            passed += found is not None
        # Both names of the topic, offsets 1 to 3, two epochs, no last one, both levels, consumers.
        assert passed == (2 * 3 * 2 * 2 * 2 if selector is None else 0)

    properties = {} if selector is None else {"replica_selector_class": selector}
    with_broker(tmp_path, scenario, **properties)
