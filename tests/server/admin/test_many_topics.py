"""Requests that name very many topics: served in parts, retried by clients, logged once."""

import asyncio
import logging
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.server.cluster import topic_creation
from barnabas.server.requests import dispatch
from barnabas.wire.apis import ApiKey
from barnabas.znodes import paths
from tests.server.admin.client import Client, parts
from tests.server.admin.running import Running, broker, until
from tests.server.raw import Insight, RawClient, api_versions, frame, with_broker

NAMES = [f"topic-{number:03d}" for number in range(120)]
LIMIT = "50"


def limited(folder: Path) -> AbstractContextManager[Running]:
    return broker(folder, barnabas_auto_create_topics_max_per_request=LIMIT)


def metadata(client: Client, names: list[str]) -> Any:
    topics = tuple(parts(name=name, topic_id=None) for name in names)
    return client.call(ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=True)


def create(client: Client, names: list[str], **fields: object) -> Any:
    topics = tuple(
        parts(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
        for name in names
    )
    return client.call(ApiKey.CREATE_TOPICS, 7, topics=topics, validate_only=False, **fields)


def codes(response: Any) -> Counter[ErrorCode]:
    return Counter(ErrorCode(topic.error_code) for topic in response.topics)


def created_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "barnabas.topics"]


def test_a_metadata_request_creates_no_more_topics_than_its_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with limited(tmp_path) as running, running.client() as client:
        response = metadata(client, NAMES)
        assert [topic.name for topic in response.topics] == NAMES
        assert set(codes(response)) <= {ErrorCode.none, ErrorCode.leader_not_available}
        assert codes(response)[ErrorCode.leader_not_available] >= 70
        assert created_lines(caplog) == [
            "created topics count=50 partitions=50 first=topic-000",
            "topics left to later requests count=70 limit=50",
        ]


def test_a_client_that_asks_again_gets_all_its_topics(tmp_path: Path) -> None:
    with limited(tmp_path) as running, running.client() as client:
        until(lambda: codes(metadata(client, NAMES)) == {ErrorCode.none: len(NAMES)})
        response = client.call(ApiKey.METADATA, 12, topics=None)
        assert [topic.name for topic in response.topics] == NAMES


def test_very_many_topics_are_created_by_one_request_and_logged_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with broker(tmp_path) as running, running.client() as client:
        assert codes(create(client, NAMES)) == {ErrorCode.none: len(NAMES)}
        assert created_lines(caplog) == ["created topics count=120 partitions=120 first=topic-000"]
        assert not [r for r in caplog.records if "topic-001" in r.getMessage()]


def test_a_topic_that_exists_already_fails_alone(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("topic-007", 1)
        response = create(client, NAMES)
        assert codes(response) == {ErrorCode.none: 119, ErrorCode.topic_already_exists: 1}
        assert response.topics[7].error_code == ErrorCode.topic_already_exists


def test_topics_of_one_request_that_metrics_cannot_tell_apart_collide(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        first, second = create(client, ["a.b", "a_b"]).topics
        assert first.error_code == ErrorCode.none
        assert second.error_code == ErrorCode.invalid_topic_exception


def test_a_transaction_that_fails_is_repeated_topic_by_topic(tmp_path: Path) -> None:
    """Another broker creates one of the topics between our look at the tree and our write."""

    async def scenario(insight: Insight) -> None:
        topics = insight.running.broker.topics
        tree = topics._coordination
        wanted = [topic_creation.NewTopic(name) for name in NAMES[:20]]
        multi, calls = tree.multi, 0

        async def late(operations: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                await tree.create(paths.topic_path("topic-007"), b"{}")
            return await multi(operations)

        with (
            patch.object(insight.running.broker.controller._queue, "put"),
            patch.object(tree, "multi", late),
        ):
            results = await topics.create_all(wanted, validate_only=False)
        failed = [each for each in results if not isinstance(each, topic_creation.Made)]
        assert [error.code for error in failed] == [ErrorCode.topic_already_exists]
        assert sorted(await tree.children(paths.TOPICS)) == NAMES[:20]

    with_broker(tmp_path, scenario)


def test_other_requests_are_served_between_the_parts_of_a_large_one(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        parts_begun: list[int] = []
        served_after: list[int] = []
        create_part = topic_creation.TopicCreation._create_part

        async def begun(*args: Any) -> Any:
            parts_begun.append(len(args[1]))
            return await create_part(*args)

        busy, other = await insight.connect(), await insight.connect()
        topics = insight.running.broker.topics
        with patch.object(topic_creation.TopicCreation, "_create_part", begun):
            wanted = [topic_creation.NewTopic(f"other-{n}") for n in range(500)]
            creating = asyncio.ensure_future(topics.create_all(wanted, validate_only=False))
            while not creating.done():
                await other.ask(api_versions())
                served_after.append(len(parts_begun))
        assert parts_begun == [100] * 5
        assert len(set(served_after)) >= 3
        await is_refused_whole(busy)

    with_broker(tmp_path, scenario)


async def is_refused_whole(client: RawClient) -> None:
    """A large request that is none closes its connection, as a small one does."""
    await client.send(frame(ApiKey.METADATA, 12, b"\xff" * (dispatch.LARGE_REQUEST + 1)))
    assert await client.is_closed()
