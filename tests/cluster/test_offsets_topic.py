"""The offsets topic of a cluster whose brokers start one after the other."""

from collections.abc import Callable

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.cluster.operations import partitions
from tests.support.asking import ask
from tests.support.cluster import Cluster, until

OFFSETS = "__consumer_offsets"


def find_coordinator(cluster: Cluster, number: int) -> ErrorCode:
    port = cluster.brokers[number].port
    answer = ask(port, ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=("billing",))
    return ErrorCode(answer.coordinators[0].error_code)


def test_an_early_client_does_not_leave_the_offsets_topic_with_one_replica(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    cluster = fresh_cluster("offsets.topic.num.partitions=2")
    cluster.start([0])
    assert find_coordinator(cluster, 0) is ErrorCode.coordinator_not_available
    cluster.start([1, 2])
    until(lambda: find_coordinator(cluster, 0) is ErrorCode.none, "the coordinator of a group")
    replicas = [len(each.replica_nodes) for each in partitions(cluster, OFFSETS).values()]
    assert replicas == [3, 3]


def test_a_cluster_of_one_broker_serves_groups_after_a_while(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    cluster = fresh_cluster("offsets.topic.num.partitions=2", brokers=1)
    cluster.start()
    until(lambda: find_coordinator(cluster, 0) is ErrorCode.none, "the coordinator of a group")
    replicas = [len(each.replica_nodes) for each in partitions(cluster, OFFSETS).values()]
    assert replicas == [1, 1]
