"""Topics while several things happen to them at once; what notices of changes leave behind."""

import asyncio
import errno
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.server.cluster.change_notifications import NOTIFICATIONS_KEPT
from barnabas.server.cluster.config_admin import Resource
from barnabas.server.cluster.config_alterations import Alteration, Operation
from barnabas.server.cluster.metadata_cache import NO_LEADER, BrokerImage
from barnabas.server.cluster.topic_admin import Topics
from barnabas.server.cluster.topic_creation import NewTopic
from barnabas.server.handlers import delete_topics
from barnabas.server.requests.access import EVERYTHING
from barnabas.server.requests.dispatch import Call
from barnabas.server.requests.mutation_quota import Mutations
from barnabas.znodes import layout, paths
from tests.server.raw import Insight, until, with_broker

TOPIC = 2


def test_a_topic_deleted_by_its_id_is_that_one_and_no_other_of_its_name(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        old_id = await insight.create("orders")
        broker = insight.running.broker
        await broker.topics.delete("orders")
        await broker.topics.gone("orders", old_id, timeout_ms=10_000)
        new_id = await insight.create("orders")
        call: Any = SimpleNamespace(version=6, access=EVERYTHING, meters=None, connection=None)
        by_id = await delete_topics._delete(broker, None, old_id, call, Mutations(call, 5))
        assert by_id.error_code == ErrorCode.unknown_topic_id
        with pytest.raises(BrokerError) as refused:
            await broker.topics.delete("orders", old_id)
        assert refused.value.code is ErrorCode.unknown_topic_id
        assert await broker.topics._coordination.children(paths.DELETE_TOPICS) == []
        assert insight.topic_id("orders") == new_id

    with_broker(tmp_path, scenario)


def test_a_topic_that_several_clients_delete_is_deleted_once_and_all_get_a_response(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        topic_id = await insight.create("orders")
        topics = insight.running.broker.topics
        await asyncio.gather(
            topics.delete("orders"), topics.delete("orders", topic_id), topics.delete("orders")
        )
        await asyncio.gather(*(topics.gone("orders", topic_id, 10_000) for _ in range(3)))
        assert await insight.create("orders") != topic_id

    with_broker(tmp_path, scenario)


def test_a_log_directory_that_fails_while_a_topic_grows_stays_offline(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", partitions=2)
        broker = insight.running.broker
        lost = next(log for log in broker.logs if log.disk.log_dir.endswith("second"))
        growing = asyncio.ensure_future(broker.topics.grow("orders", 3, None, validate_only=False))
        await asyncio.sleep(0)
        broker.failures.disk_failed(DiskFault(lost.disk.log_dir, OSError(errno.EIO, "died")))
        await growing

        def leaders() -> list[BrokerId]:
            image = broker.metadata.topic("orders")
            assert image is not None
            return [partition.leader for _, partition in sorted(image.partitions.items())]

        expected = [BrokerId(0)] * 3
        expected[lost.partition.partition] = NO_LEADER
        await until(lambda: leaders() == expected)

    folders = ",".join(str(tmp_path / name) for name in ("first", "second"))
    with_broker(tmp_path, scenario, log_dirs=folders)


def test_notices_of_changed_configs_do_not_pile_up(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        configs = insight.running.broker.config_admin
        for number in range(NOTIFICATIONS_KEPT + 5):
            change = [Alteration("retention.ms", Operation.SET, str(number))]
            await configs.alter(Resource(TOPIC, "orders"), change, validate_only=False)
        kept = await insight.state.coordination.children(paths.CONFIG_CHANGES)
        assert len(kept) == NOTIFICATIONS_KEPT
        assert paths.sequence_number(kept[-1]) == NOTIFICATIONS_KEPT + 4

    with_broker(tmp_path, scenario)


def test_a_topic_is_not_created_again_before_its_deletion_is_finished(
    tmp_path: Path,
) -> None:
    """Else what is left of the deletion, its properties, would be taken from the new one."""

    async def scenario(insight: Insight) -> None:
        topics = insight.running.broker.topics
        mark = paths.delete_topic_path("orders")
        with patch.object(insight.running.broker.controller._queue, "put"):  # nobody sees to it
            await topics._coordination.create(mark)
            with pytest.raises(BrokerError, match="marked for deletion"):
                await topics.create(NewTopic("orders"), validate_only=False)
        await topics._coordination.delete(mark)
        await insight.create("orders")

    with_broker(tmp_path, scenario)


def test_a_broker_that_has_left_is_not_chosen_though_the_metadata_still_has_it(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        broker = insight.running.broker
        has_left = BrokerImage(BrokerId(7), {})
        broker.metadata.brokers[BrokerId(7)] = has_left
        made = await broker.topics.create(NewTopic("orders", partitions=4), validate_only=False)
        assert set(made.assignment.values()) == {(BrokerId(0),)}
        await broker.topics.led("orders", 4, timeout_ms=10_000)
        broker.metadata.brokers[BrokerId(7)] = has_left
        await broker.topics.grow("orders", 8, None, validate_only=False)
        await broker.topics.led("orders", 8, timeout_ms=10_000)
        broker.metadata.brokers[BrokerId(7)] = has_left
        with pytest.raises(BrokerError) as refused:
            await broker.topics.create(
                NewTopic("copied", partitions=1, replication_factor=2), validate_only=True
            )
        assert refused.value.code is ErrorCode.invalid_replication_factor

    with_broker(tmp_path, scenario)


def test_properties_that_are_left_of_a_topic_are_not_the_next_ones(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        topics = insight.running.broker.topics
        left_over = paths.config_path(paths.topic_entity("orders"))
        await topics._coordination.create(left_over, layout.encode_config({"retention.ms": "1"}))
        await insight.create("orders", segment_bytes="5000")
        config = insight.running.broker.configs.topic("orders")
        assert (config.segment_bytes, config.retention_ms) == (5000, 7 * 24 * 60 * 60 * 1000)

    with_broker(tmp_path, scenario)


def test_topics_deleted_by_one_request_are_awaited_together(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        names = ("orders", "users", "payments")
        all_wait = asyncio.Barrier(len(names))

        async def awaited(*_: object) -> None:
            async with asyncio.timeout(10):
                await all_wait.wait()

        broker, call = (
            insight.running.broker,
            cast(Call, SimpleNamespace(version=6, access=EVERYTHING, meters=None, connection=None)),
        )
        for name in names:
            await insight.create(name)
        with patch.object(Topics, "gone", awaited):
            states = tuple(DeleteTopicState(name=name, topic_id=None) for name in names)
            request = DeleteTopicsRequest(topics=states, timeout=timedelta(seconds=10))
            deleted = await delete_topics.handle(broker, request, call)
        assert [topic.error_code for topic in deleted.responses] == [ErrorCode.none] * 3

    with_broker(tmp_path, scenario)
