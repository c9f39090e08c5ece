"""CreatePartitions: a topic grows, and what is refused leaves it as it was."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client, parts
from tests.server.admin.running import broker

VERSIONS = range(4)


def wanted(name: str, count: int, *replicas: tuple[int, ...]) -> Any:
    assignments = tuple(parts(broker_ids=ids) for ids in replicas) or None
    return parts(name=name, count=count, assignments=assignments)


def grow(client: Client, *topics: Any, version: int = 3, validate_only: bool = False) -> Any:
    response = client.call(
        ApiKey.CREATE_PARTITIONS, version, topics=topics, validate_only=validate_only
    )
    return response.results


def count(client: Client, name: str) -> int:
    (topic,) = client.call(ApiKey.METADATA, topics=(parts(name=name, topic_id=None),)).topics
    return len(topic.partitions)


@pytest.mark.parametrize("version", VERSIONS)
def test_new_partitions_can_be_used_and_old_ones_keep_their_records(
    client: Client, version: int
) -> None:
    name = f"grown-{version}"
    client.create(name)
    client.produce(name)
    (result,) = grow(client, wanted(name, 3), version=version)
    assert (result.name, result.error_code, result.error_message) == (name, 0, None)
    assert client.offset(name, -1) == 1
    assert client.produce(name, partition=2).base_offset == 0


def test_assignments_may_be_given(client: Client) -> None:
    client.create("assigned")
    assert grow(client, wanted("assigned", 3, (0,), (0,)))[0].error_code == ErrorCode.none
    assert count(client, "assigned") == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_validate_only_changes_nothing(client: Client, version: int) -> None:
    name = f"only-{version}"
    client.create(name)
    (result,) = grow(client, wanted(name, 3), version=version, validate_only=True)
    assert result.error_code == ErrorCode.none
    assert count(client, name) == 1


INVALID = ErrorCode.invalid_replica_assignment
REFUSED = [
    (wanted("two", 2), ErrorCode.invalid_partitions, "Topic already has 2 partitions."),
    (
        wanted("two", 1),
        ErrorCode.invalid_partitions,
        "Topic currently has 2 partitions, which is higher than the requested 1.",
    ),
    (
        wanted("nowhere", 2),
        ErrorCode.unknown_topic_or_partition,
        "The topic 'nowhere' does not exist.",
    ),
    (
        wanted("two", 4, (0,)),
        INVALID,
        "Increasing the number of partitions by 2 but 1 assignments provided.",
    ),
    (wanted("two", 3, (8,)), INVALID, "Unknown broker(s) in replica assignment: 8."),
    (wanted("two", 3, ()), INVALID, "Cannot have replication factor of 0 for partition id 2."),
    (
        wanted("two", 3, (0, 0)),
        INVALID,
        "Duplicate brokers not allowed in replica assignment: 0, 0 for partition id 2.",
    ),
]


@pytest.mark.parametrize(("topic", "code", "message"), REFUSED)
def test_what_cannot_be_is_refused(
    client: Client, topic: Any, code: ErrorCode, message: str
) -> None:
    client.call(
        ApiKey.CREATE_TOPICS, topics=(parts(name="two", num_partitions=2, replication_factor=1),)
    )
    (result,) = grow(client, topic)
    assert (result.error_code, result.error_message) == (code, message)
    assert count(client, "two") == 2


def test_a_topic_named_twice_does_not_grow(client: Client) -> None:
    client.create("dup")
    client.create("beside")
    results = grow(client, wanted("dup", 2), wanted("dup", 3), wanted("beside", 2))
    told = {r.name: (r.error_code, r.error_message) for r in results}
    assert told == {
        "dup": (ErrorCode.invalid_request, "Duplicate topic in request."),
        "beside": (ErrorCode.none, None),
    }


def test_grown_topics_survive_a_restart(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("t")
        grow(client, wanted("t", 5))
    with broker(tmp_path) as running, running.client() as client:
        assert count(client, "t") == 5
        assert client.produce("t", partition=4).base_offset == 0
