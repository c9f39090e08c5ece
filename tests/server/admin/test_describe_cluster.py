"""DescribeCluster, DescribeLogDirs and DescribeTopicPartitions."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client, parts
from tests.server.admin.running import Running, broker

# -- DescribeCluster ----------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
def test_the_cluster_is_described(client: Client, version: int) -> None:
    response = client.call(ApiKey.DESCRIBE_CLUSTER, version)
    assert (response.error_code, response.error_message) == (ErrorCode.none, None)
    assert response.cluster_id == client.call(ApiKey.METADATA, topics=()).cluster_id
    (told,) = response.brokers
    assert (told.broker_id, told.host, told.port) == (0, "127.0.0.1", client.port)
    assert response.controller_id == 0
    assert response.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", [0, 1])
def test_authorized_operations_are_returned_on_request(client: Client, version: int) -> None:
    response = client.call(
        ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True
    )
    assert response.cluster_authorized_operations == 0b1111110100000


@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        (
            2,
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        ),
        (7, ErrorCode.unsupported_endpoint_type, "Unsupported endpoint type 7"),
    ],
)
def test_only_brokers_are_listed(
    client: Client, endpoint_type: int, code: ErrorCode, message: str
) -> None:
    response = client.call(ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=endpoint_type)
    assert (response.error_code, response.error_message) == (code, message)
    assert response.brokers == ()


# -- DescribeLogDirs ----------------------------------------------------------

LOG_DIRS = range(1, 5)


def log_dirs(client: Client, version: int, topics: Sequence[Any] | None = None) -> Any:
    return client.call(ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics).results


@pytest.mark.parametrize("version", LOG_DIRS)
def test_each_log_directory_is_described_with_its_partitions(tmp_path: Path, version: int) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with broker(first, second) as running, running.client() as client:
        client.create("t", 4)
        client.produce("t", [b"x" * 1000], partition=2)
        results = {result.log_dir: result for result in log_dirs(client, version)}
        assert set(results) == {str(first), str(second)}
        found: dict[int, tuple[str, Any]] = {}
        for folder, result in results.items():
            assert result.error_code == ErrorCode.none
            (topic,) = result.topics
            assert topic.name == "t"
            assert len(topic.partitions) == 2
            found |= {p.partition_index: (folder, p) for p in topic.partitions}
        assert sorted(found) == [0, 1, 2, 3]
        for index, (folder, partition) in found.items():
            log = Path(folder) / f"t-{index}" / f"{0:020}.log"
            assert partition.partition_size == log.stat().st_size
            assert (partition.offset_lag, partition.is_future_key) == (0, False)


def test_the_size_of_the_file_system_is_returned_from_version_4(
    client: Client, tmp_path: Path
) -> None:
    (result,) = log_dirs(client, 4)
    assert result.total_bytes == shutil.disk_usage(tmp_path).total
    assert 0 < result.usable_bytes <= result.total_bytes


@pytest.mark.parametrize("version", LOG_DIRS)
def test_only_the_requested_partitions_are_described(client: Client, version: int) -> None:
    name = f"dirs-{version}"
    client.create(name, 3)
    (result,) = log_dirs(client, version, (parts(topic=name, partitions=(0, 2, 9)),))
    assert [t.name for t in result.topics] == [name]
    assert [p.partition_index for p in result.topics[0].partitions] == [0, 2]
    (nothing,) = log_dirs(client, version, ())
    assert (nothing.error_code, nothing.topics) == (ErrorCode.none, ())


# -- DescribeTopicPartitions --------------------------------------------------


@pytest.fixture
def paged(shared: Running, client: Client) -> Client:
    """Topics p-a with three partitions, p-b with one, p-c with two."""
    if shared.running.broker.metadata.topic("p-c") is None:
        for name, partitions in (("p-a", 3), ("p-b", 1), ("p-c", 2)):
            client.create(name, partitions)
    return client


def page(
    client: Client, names: Sequence[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    response = client.call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=tuple(parts(name=name) for name in names),
        response_partition_limit=limit,
        cursor=cursor and parts(topic_name=cursor[0], partition_index=cursor[1]),
    )
    told = [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics]
    following = response.next_cursor
    return told, following and (following.topic_name, following.partition_index)


ALL = ["p-a", "p-b", "p-c"]


def test_topics_are_described_in_the_order_of_their_names(paged: Client) -> None:
    told, cursor = page(paged, ["p-c", "p-a", "p-a"])
    assert told == [("p-a", [0, 1, 2]), ("p-c", [0, 1])]
    assert cursor is None


def test_no_names_ask_for_all(paged: Client) -> None:
    told, _ = page(paged, [])
    assert [name for name, _ in told if name in ALL] == ALL


@pytest.mark.parametrize("limit", range(1, 8))
def test_pages_hold_every_partition_once(paged: Client, limit: int) -> None:
    told, cursor = page(paged, ALL, limit)
    pages = [told]
    while cursor is not None:
        told, cursor = page(paged, ALL, limit, cursor)
        pages.append(told)
    assert all(sum(len(p) for _, p in told) <= limit for told in pages)
    everything = [(name, i) for told in pages for name, indexes in told for i in indexes]
    assert everything == [
        (f"p-{t}", i) for t, n in (("a", 3), ("b", 1), ("c", 2)) for i in range(n)
    ]


def test_a_limit_of_zero_still_returns_one_partition(paged: Client) -> None:
    assert page(paged, ALL, 0) == ([("p-a", [0])], ("p-a", 1))


def test_the_brokers_limit_holds(tmp_path: Path) -> None:
    with (
        broker(tmp_path, max_request_partition_size_limit="2") as running,
        running.client() as client,
    ):
        client.create("t", 3)
        assert page(client, ["t"], 100) == ([("t", [0, 1])], ("t", 2))


def test_a_partition_is_described_with_leader_and_replicas(paged: Client) -> None:
    response = paged.call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=(parts(name="p-b"),), cursor=None
    )
    (topic,) = response.topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.none, False)
    assert topic.topic_id is not None
    assert topic.topic_authorized_operations == 0b110111111000
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.leader_epoch) == (0, 0)
    assert partition.replica_nodes == partition.isr_nodes == (0,)
    assert partition.offline_replicas == ()


def test_unknown_and_invalid_names_get_their_errors(paged: Client) -> None:
    response = paged.call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=(parts(name="nowhere"), parts(name="a b"), parts(name="p-b")),
        cursor=None,
    )
    assert {t.name: t.error_code for t in response.topics} == {
        "a b": ErrorCode.invalid_topic_exception,
        "nowhere": ErrorCode.unknown_topic_or_partition,
        "p-b": ErrorCode.none,
    }


@pytest.mark.parametrize("cursor", [("p-b", 0), ("p-a", -1)])
def test_a_cursor_that_points_nowhere_is_refused(paged: Client, cursor: tuple[str, int]) -> None:
    response = paged.call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=(parts(name="p-a"),),
        cursor=parts(topic_name=cursor[0], partition_index=cursor[1]),
    )
    assert [t.error_code for t in response.topics] == [ErrorCode.invalid_request]


def test_a_cursor_at_a_topic_deleted_meanwhile_goes_on_with_the_next(paged: Client) -> None:
    told, _ = page(paged, [], 1, ("p-aa", 0))
    assert told == [("p-b", [0])]
