"""A controller that is cut off from ZooKeeper but reaches all brokers: it changes nothing."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.chaos.cluster import CutCluster
from tests.chaos.network import ZOOKEEPER, isolation
from tests.cluster.conftest import BROKERS
from tests.cluster.operations import (
    PATIENCE,
    PREFERRED,
    create,
    new_topic,
    next_controller,
    partitions,
    reassigning,
)
from tests.support.agreement import read_znodes
from tests.support.asking import ask, parts
from tests.support.cluster import until

pytestmark = pytest.mark.timeout(300)


def asked_of_the_past(topic: str) -> list[tuple[ApiKey, dict[str, Any]]]:
    """Admin requests to a controller that does not know that it was replaced."""
    moved = parts(partition_index=0, replicas=(0,))
    elected = parts(topic=topic, partitions=(0, 1, 2))
    return [
        (
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            {"topics": (parts(name=topic, partitions=(moved,)),)},
        ),
        (ApiKey.ELECT_LEADERS, {"election_type": PREFERRED, "topic_partitions": (elected,)}),
    ]


def test_a_controller_that_is_cut_off_from_zookeeper_changes_nothing(
    tmp_path: Path, zookeeper_chroot: str, topic: str
) -> None:
    cluster = CutCluster(tmp_path, zookeeper_chroot)
    with cluster, ThreadPoolExecutor() as threads:
        create(cluster, topic, 6)
        cluster.wait_settled()
        past, epoch = cluster.controller(), read_znodes(cluster.zookeeper)["epoch"]
        port = cluster.brokers[past].port
        cluster.network.cut(isolation(past, [ZOOKEEPER]))
        asked = [
            threads.submit(partial(ask, port, key, within_s=60, timeout=PATIENCE, **fields))
            for key, fields in asked_of_the_past(topic)
        ]
        now = next_controller(cluster, past)
        others = [number for number in BROKERS if number != past]
        until(
            lambda: all(cluster.metadata(n).controller_id == now for n in others),
            "the others to know the new controller",
        )
        made = ask(
            cluster.brokers[now].port,
            ApiKey.CREATE_TOPICS,
            within_s=60,
            topics=(new_topic(f"{topic}-new", 3, 2),),
            timeout=PATIENCE,
        )
        assert made.topics[0].error_code is ErrorCode.none
        cluster.network.mend()
        assert [each.result().error_code for each in asked] == [ErrorCode.not_controller] * 2
        cluster.wait_settled()
        assert cluster.controller() == now
        assert read_znodes(cluster.zookeeper)["epoch"] == epoch + 1
        assert reassigning(cluster) == {}
        found = partitions(cluster, topic)
        assert sorted(found) == list(range(6))
        assert all(sorted(each.replica_nodes) == [0, 1, 2] for each in found.values())
        assert len(partitions(cluster, f"{topic}-new")) == 3
