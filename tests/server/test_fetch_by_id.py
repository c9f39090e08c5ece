"""Fetch by id where another topic has the name by now, and the metadata does not tell of it yet."""

import uuid
from pathlib import Path
from types import ModuleType

import pytest
from kio.schema.errors import ErrorCode

from barnabas.wire.fetch.single_answer import SingleAnswer
from barnabas.wire.fetch.single_fetch import SingleFetch
from tests.log.batches import append, open_partition
from tests.replication.leading import sole_leader
from tests.server.followed import BROKER, follow, lead
from tests.server.raw import Insight, fetch, with_broker
from tests.server.test_fetch import filled, offsets, only
from tests.support.twins import both

FORMER, NOW = uuid.UUID(int=99), uuid.UUID(int=1)
VERSION = 13  # the first by id, and the last in which followers ask as consumers do


@pytest.mark.parametrize("session_epoch", [0, -1])
def test_a_consumer_is_not_given_what_another_topic_of_that_name_has(
    tmp_path: Path, session_epoch: int
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders")
        insight.running.broker.metadata.know_id("orders", FORMER)
        for topic_id, code, found in (
            (insight.topic_id("orders"), ErrorCode.none, [0, 1, 2]),
            (FORMER, ErrorCode.inconsistent_topic_id, []),
        ):
            asked = fetch((topic_id, 0, 0), version=VERSION, session_epoch=session_epoch)
            partition = only(await client.ask(asked))
            assert (partition.error_code, offsets(partition)) == (code, found)

    with_broker(tmp_path, scenario)


def test_a_follower_of_another_topic_of_that_name_is_refused_and_makes_no_progress(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await filled(insight, "orders")
        leader = lead(insight, "orders")
        insight.running.broker.metadata.know_id("orders", FORMER)
        got = await follow(client, FORMER, 3, version=VERSION)
        assert got.error_code == ErrorCode.inconsistent_topic_id
        assert leader.high_watermark == 0
        got = await follow(client, insight.topic_id("orders"), 3, version=VERSION)
        assert got.error_code == ErrorCode.none
        assert leader.high_watermark == 3

    with_broker(tmp_path, scenario, **BROKER)


@pytest.mark.parametrize("twin", both("barnabas.server.requests.repeated_fetch"))
@pytest.mark.parametrize("topic_id", [FORMER, NOW, None])
def test_the_short_way_is_for_the_topic_that_is_meant(
    twin: ModuleType, topic_id: uuid.UUID | None, tmp_path: Path
) -> None:
    log = open_partition(tmp_path)
    append(log)
    leader = sole_leader(log)
    leader.topic_id = topic_id
    single = SingleFetch(NOW, 0, 0, 1_000, 1_000, 1, -1, False, 10)
    ready = SingleAnswer(b"", 24, b"", b"")
    again = twin.RepeatedFetch(
        single, ready, memoryview(bytes(30)), lambda *_: leader, lambda _: "orders", 1_000
    )
    assert (again.answer(0, 7) is None) is (topic_id is FORMER)
