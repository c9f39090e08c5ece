"""Stray logs: a broker that was down during a reassignment deletes them when it restarts."""

import pytest

from barnabas.base.ids import TopicPartition
from tests.cluster.conftest import revive
from tests.cluster.operations import create, partitions, reassign
from tests.support.cluster import Cluster, until

pytestmark = pytest.mark.timeout(300)


def folders(cluster: Cluster, broker: int, topic: str) -> list[str]:
    return sorted(path.name for path in cluster.brokers[broker].data.glob(f"{topic}-*"))


def test_logs_reassigned_meanwhile_are_deleted_and_the_others_kept(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, assignment=((0, 1), (1, 0)))
    cluster.wait_settled()
    cluster.brokers[1].stop()
    reassign(cluster, {TopicPartition(topic, 0): (0, 2)})
    until(
        lambda: tuple(partitions(cluster, topic)[0].replica_nodes) == (0, 2),
        "the partition to have moved",
    )
    assert folders(cluster, 1, topic) == [f"{topic}-0", f"{topic}-1"]
    revive(cluster)
    until(lambda: folders(cluster, 1, topic) == [f"{topic}-1"], "the moved log to be let go")
