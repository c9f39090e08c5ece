"""A log directory that fails under the group coordinator: requests get an error, no bug is hit."""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from barnabas.coordinator.coordinator_topic import partition_of
from barnabas.server.groups.offsets_topic import OFFSETS_TOPIC
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client
from tests.server.admin.running import broker, until
from tests.server.admin.test_failing_disks import Disks
from tests.server.group_members import NOT_COORDINATOR, ClassicMember, coordinated

GROUP = {
    "group_initial_rebalance_delay_ms": "0",
    "offsets_topic_num_partitions": "2",
}


def empty_consumer_group(client: Client, group: str) -> None:
    """Make a consumer group by a member that joins and leaves."""
    beat: dict[str, Any] = {
        "group_id": group,
        "member_id": "m",
        "rebalance_timeout": timedelta(seconds=10),
        "subscribed_topic_names": ("t",),
        "topic_partitions": (),
    }
    joined = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, member_epoch=0, **beat)
    assert joined.error_code == 0, joined
    beat["member_id"] = joined.member_id
    assert client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, member_epoch=-1, **beat).error_code == 0


def test_a_classic_join_to_an_empty_consumer_group_while_the_log_directory_fails_gets_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disks = Disks()
    with (
        broker(tmp_path / "one", tmp_path / "two", disk=disks, **GROUP) as running,
        running.client() as client,
    ):
        client.create("t")
        group = coordinated(client, "g")
        empty_consumer_group(client, group)
        logs = running.running.broker.logs
        of_group = next(
            log for log in logs if log.partition == (OFFSETS_TOPIC, partition_of(group, 2))
        )
        disks[Path(of_group.disk.log_dir).name].failing = True
        with caplog.at_level(logging.ERROR), ClassicMember(client, group) as member:
            member.send_join(version=3)
            assert member.receive_join().error_code == NOT_COORDINATOR
            until(lambda: of_group.disk.log_dir in logs.offline, "the log directory to be offline")
        assert not [record for record in caplog.records if record.exc_info]
        assert running.failure() is None
