"""Topics while several things happen to them at once; what notices of changes leave behind."""

import asyncio
import errno
from pathlib import Path

from barnabas.base.errors import DiskFault, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.server.configs import NOTIFICATIONS_KEPT, Alteration, Operation, Resource
from barnabas.server.handlers import delete_topics
from barnabas.server.metadata import NO_LEADER
from barnabas.server.topics import NewTopic
from barnabas.znodes import paths
from tests.server.raw import Insight, with_broker

TOPIC = 2


def test_a_topic_deleted_by_its_id_is_that_one_and_no_other_of_its_name(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        old_id = await insight.create("orders")
        broker = insight.running.broker
        _, anew, by_id = await asyncio.gather(
            broker.topics.delete("orders"),
            broker.topics.create(NewTopic("orders"), validate_only=False),
            delete_topics._delete(broker, None, old_id, 6),
        )
        assert by_id.error_code == ErrorCode.unknown_topic_id
        assert broker.metadata.topic("orders") == anew

    with_broker(tmp_path, scenario)


def test_a_folder_that_fails_while_a_topic_grows_stays_offline(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders", partitions=2)
        broker = insight.running.broker
        lost = next(log for log in broker.logs if log.disk.folder.endswith("second"))
        growing = asyncio.ensure_future(broker.topics.grow("orders", 3, None, validate_only=False))
        await asyncio.sleep(0)
        broker.disk_failed(DiskFault(lost.disk.folder, OSError(errno.EIO, "died")))
        await growing
        image = broker.metadata.topic("orders")
        assert image is not None
        leaders = {index: partition.leader for index, partition in image.partitions.items()}
        assert leaders[lost.partition.partition] == NO_LEADER
        assert sorted(leaders.values()) == [NO_LEADER, BrokerId(0), BrokerId(0)]

    folders = ",".join(str(tmp_path / name) for name in ("first", "second"))
    with_broker(tmp_path, scenario, log_dirs=folders)


def test_notices_of_changed_configs_do_not_pile_up(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("orders")
        configs = insight.running.broker.configs
        for number in range(NOTIFICATIONS_KEPT + 5):
            change = [Alteration("retention.ms", Operation.SET, str(number))]
            await configs.alter(Resource(TOPIC, "orders"), change, validate_only=False)
        kept = await configs._coordination.children(paths.CONFIG_CHANGES)
        assert len(kept) == NOTIFICATIONS_KEPT
        assert paths.sequence_number(kept[-1]) == NOTIFICATIONS_KEPT + 4

    with_broker(tmp_path, scenario)
