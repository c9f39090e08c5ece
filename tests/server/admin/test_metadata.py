"""Metadata: the requests and responses of each version."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client, parts
from tests.server.admin.running import broker, until

VERSIONS = range(13)
CREATES = range(4, 13)  # versions in which creation can be declined


def metadata(client: Client, version: int, names: Sequence[str] | None, **fields: object) -> Any:
    topics = None if names is None else tuple(parts(name=name, topic_id=None) for name in names)
    return client.call(ApiKey.METADATA, version, topics=topics, **fields)


def created(client: Client, version: int, names: Sequence[str]) -> Any:
    """The topics in the response to a client that asks again while one has no leader yet."""
    told: Any = ()

    def led() -> bool:
        nonlocal told
        told = metadata(client, version, names, allow_auto_topic_creation=True).topics
        return all(topic.error_code != ErrorCode.leader_not_available for topic in told)

    until(led)
    return told


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_returned_with_its_partitions(client: Client, version: int) -> None:
    name = f"told-{version}"
    topic_id = client.create(name, 3)
    response = metadata(client, version, [name], allow_auto_topic_creation=False)
    (topic,) = response.topics
    assert (topic.error_code, topic.name) == (ErrorCode.none, name)
    assert sorted(p.partition_index for p in topic.partitions) == [0, 1, 2]
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id) == (ErrorCode.none, 0)
        assert partition.replica_nodes == partition.isr_nodes == (0,)
    if version >= 7:
        assert {p.leader_epoch for p in topic.partitions} == {0}
    if version >= 10:
        assert topic.topic_id == topic_id


@pytest.mark.parametrize("version", VERSIONS)
def test_the_broker_is_returned_with_the_address_of_the_clients_listener(
    client: Client, version: int
) -> None:
    (told,) = metadata(client, version, []).brokers
    assert (told.node_id, told.host, told.port) == (0, "127.0.0.1", client.port)


@pytest.mark.parametrize("version", range(1, 13))
def test_controller_and_cluster_id_are_returned(client: Client, version: int) -> None:
    response = metadata(client, version, [])
    assert response.controller_id == 0
    if version >= 2:
        assert len(response.cluster_id) == 22


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_asked_for_by_none_in_version_0_and_by_null_later(
    client: Client, version: int
) -> None:
    client.create(f"all-{version}")
    told = metadata(client, version, [] if version == 0 else None).topics
    assert f"all-{version}" in [topic.name for topic in told]
    if version > 0:
        assert metadata(client, version, []).topics == ()


def test_a_topic_named_twice_is_returned_once(client: Client) -> None:
    client.create("twice")
    assert len(metadata(client, 12, ["twice", "twice"]).topics) == 1


# -- creating -----------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_named_first_here_is_created(client: Client, version: int) -> None:
    name = f"auto-{version}"
    (topic,) = created(client, version, [name])
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.none, 1)
    assert client.produce(name).error_code == ErrorCode.none


@pytest.mark.parametrize("version", CREATES)
def test_a_client_may_decline_creation(client: Client, version: int) -> None:
    response = metadata(client, version, ["declined"], allow_auto_topic_creation=False)
    assert response.topics[0].error_code == ErrorCode.unknown_topic_or_partition
    assert response.topics[0].partitions == ()


def test_nothing_is_created_where_the_broker_does_not_do_so(tmp_path: Path) -> None:
    with broker(tmp_path, auto_create_topics_enable="false") as running, running.client() as client:
        for version in VERSIONS:
            (topic,) = metadata(client, version, ["x"], allow_auto_topic_creation=True).topics
            assert topic.error_code == ErrorCode.unknown_topic_or_partition
        assert metadata(client, 12, None).topics == ()


def test_created_topics_get_the_brokers_defaults(tmp_path: Path) -> None:
    with broker(tmp_path, num_partitions="4") as running, running.client() as client:
        (topic,) = created(client, 12, ["x"])
        assert len(topic.partitions) == 4


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_an_internal_topic_is_created_as_its_coordinator_wants_it(
    tmp_path: Path, name: str
) -> None:
    with (
        broker(
            tmp_path,
            offsets_topic_num_partitions="3",
            transaction_state_log_num_partitions="3",
        ) as running,
        running.client() as client,
    ):
        (topic,) = created(client, 12, [name])
        assert len(topic.partitions) == 3
        asked = parts(resource_type=2, resource_name=name, configuration_keys=("cleanup.policy",))
        (told,) = client.call(ApiKey.DESCRIBE_CONFIGS, resources=(asked,)).results
        assert told.configs[0].value == "compact"


def test_an_invalid_default_is_reported_as_the_reason(tmp_path: Path) -> None:
    with (
        broker(tmp_path, default_replication_factor="3") as running,
        running.client() as client,
    ):
        (topic,) = metadata(client, 12, ["x"], allow_auto_topic_creation=True).topics
        assert topic.error_code == ErrorCode.invalid_replication_factor


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "x" * 250])
@pytest.mark.parametrize("create", [True, False])
def test_a_name_that_is_none_is_refused(client: Client, name: str, create: bool) -> None:
    (topic,) = metadata(client, 12, [name], allow_auto_topic_creation=create).topics
    assert (topic.error_code, topic.name) == (ErrorCode.invalid_topic_exception, name)


def test_one_bad_name_does_not_spoil_the_others(client: Client) -> None:
    told = created(client, 12, ["a b", "good-beside-bad"])
    assert [t.error_code for t in told] == [ErrorCode.invalid_topic_exception, ErrorCode.none]


# -- by id --------------------------------------------------------------------


def test_a_topic_is_found_by_its_id(client: Client) -> None:
    topic_id = client.create("by-id")
    (topic,) = client.call(
        ApiKey.METADATA, 12, topics=(parts(name=None, topic_id=topic_id),)
    ).topics
    assert (topic.error_code, topic.name) == (ErrorCode.none, "by-id")


def test_an_id_of_no_topic_creates_nothing(client: Client) -> None:
    unknown = uuid.UUID(int=7)
    (topic,) = client.call(
        ApiKey.METADATA,
        12,
        topics=(parts(name=None, topic_id=unknown),),
        allow_auto_topic_creation=True,
    ).topics
    assert (topic.error_code, topic.name) == (ErrorCode.unknown_topic_id, None)
    assert topic.topic_id == unknown


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_before_version_12(client: Client, version: int) -> None:
    asked = parts(name="x", topic_id=uuid.UUID(int=7))
    (topic,) = client.call(ApiKey.METADATA, version, topics=(asked,)).topics
    assert topic.error_code == ErrorCode.invalid_request


# -- more ---------------------------------------------------------------------


@pytest.mark.parametrize("version", range(8, 13))
def test_authorized_operations_are_returned_on_request(client: Client, version: int) -> None:
    client.create(f"may-{version}")
    asked = metadata(client, version, [f"may-{version}"], include_topic_authorized_operations=True)
    assert asked.topics[0].topic_authorized_operations == 0b110111111000
    not_asked = metadata(client, version, [f"may-{version}"])
    assert not_asked.topics[0].topic_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", range(8, 11))
def test_authorized_cluster_operations_are_returned_on_request(
    client: Client, version: int
) -> None:
    asked = metadata(client, version, [], include_cluster_authorized_operations=True)
    assert asked.cluster_authorized_operations == 0b1111110100000
    assert metadata(client, version, []).cluster_authorized_operations == -(2**31)


def test_the_advertised_host_is_returned(tmp_path: Path) -> None:
    with (
        broker(
            tmp_path, advertised_listeners="PLAINTEXT://kafka.example:1234", broker_rack="r1"
        ) as running,
        running.client() as client,
    ):
        (told,) = metadata(client, 12, []).brokers
        assert (told.host, told.port, told.rack) == ("kafka.example", 1234, "r1")


def test_each_listener_returns_its_own_address(tmp_path: Path) -> None:
    with broker(
        tmp_path,
        listeners="INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        advertised_listeners="INSIDE://inside:1,OUTSIDE://outside:2",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        inter_broker_listener_name="INSIDE",
    ) as running:
        for endpoint, host in zip(running.running.endpoints, ("inside", "outside"), strict=True):
            with Client("127.0.0.1", endpoint.port) as client:
                assert metadata(client, 12, []).brokers[0].host == host


def test_the_cluster_keeps_its_id_over_a_restart(tmp_path: Path) -> None:
    ids = []
    for _ in range(2):
        with broker(tmp_path) as running, running.client() as client:
            ids.append(metadata(client, 12, []).cluster_id)
    assert ids[0] == ids[1]
