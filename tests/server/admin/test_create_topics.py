"""CreateTopics: defaults, assignments, and what is refused with which code and words."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client, parts
from tests.server.admin.running import broker

VERSIONS = range(2, 8)


def wanted(name: str, partitions: int = -1, replicas: int = -1, **fields: object) -> Any:
    return parts(name=name, num_partitions=partitions, replication_factor=replicas, **fields)


def assigned(name: str, *replicas: tuple[int, ...], first: int = 0) -> Any:
    given = tuple(
        parts(partition_index=index, broker_ids=brokers)
        for index, brokers in enumerate(replicas, first)
    )
    return wanted(name, assignments=given)


def configured(name: str, *configs: tuple[str, str | None]) -> Any:
    return wanted(name, 1, 1, configs=tuple(parts(name=k, value=v) for k, v in configs))


def create(client: Client, *topics: Any, version: int = 7, validate_only: bool = False) -> Any:
    response = client.call(
        ApiKey.CREATE_TOPICS, version, topics=topics, validate_only=validate_only
    )
    return response.topics


def names(client: Client) -> list[str]:
    return [topic.name for topic in client.call(ApiKey.METADATA, topics=None).topics]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_made_and_can_be_used_at_once(client: Client, version: int) -> None:
    name = f"made-{version}"
    (topic,) = create(client, wanted(name, 2, 1), version=version)
    assert (topic.error_code, topic.error_message) == (ErrorCode.none, None)
    assert client.produce(name, partition=1).base_offset == 0
    if version >= 5:
        assert (topic.num_partitions, topic.replication_factor) == (2, 1)
    if version >= 7:
        found = client.call(ApiKey.METADATA, topics=(parts(name=name, topic_id=None),))
        assert found.topics[0].topic_id == topic.topic_id


@pytest.mark.parametrize("version", range(4, 8))
def test_minus_one_asks_for_the_brokers_defaults(tmp_path: Path, version: int) -> None:
    with broker(tmp_path, num_partitions="3") as running, running.client() as client:
        (topic,) = create(client, wanted("defaults"), version=version)
        assert topic.error_code == ErrorCode.none
        (found,) = client.call(ApiKey.METADATA, topics=None).topics
        assert len(found.partitions) == 3


def test_the_client_may_say_which_broker_holds_what(client: Client) -> None:
    (topic,) = create(client, assigned("assigned", (0,), (0,)))
    assert (topic.error_code, topic.num_partitions) == (ErrorCode.none, 2)


@pytest.mark.parametrize("version", range(5, 8))
def test_the_response_has_the_configs_of_the_new_topic(client: Client, version: int) -> None:
    topic = create(client, configured(f"configs-{version}", ("retention.ms", "5")), version=version)
    configs = {config.name: config for config in topic[0].configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == (
        "1073741824",
        5,
    )
    assert not configs["retention.ms"].read_only
    assert not configs["retention.ms"].is_sensitive


@pytest.mark.parametrize("version", VERSIONS)
def test_validate_only_answers_the_same_and_makes_nothing(client: Client, version: int) -> None:
    (topic,) = create(client, wanted("only", 2, 1), version=version, validate_only=True)
    assert topic.error_code == ErrorCode.none
    assert "only" not in names(client)
    if version >= 7:
        assert (topic.num_partitions, topic.topic_id) == (2, None)


def test_validate_only_refuses_what_creation_would(client: Client) -> None:
    client.create("there")
    (topic,) = create(client, wanted("there"), validate_only=True)
    assert topic.error_code == ErrorCode.topic_already_exists


@pytest.mark.parametrize("version", VERSIONS)
def test_an_existing_topic_is_not_created_again(client: Client, version: int) -> None:
    name = f"again-{version}"
    client.create(name, 3)
    (topic,) = create(client, wanted(name, 1, 1), version=version)
    assert topic.error_code == ErrorCode.topic_already_exists
    assert topic.error_message == f"Topic '{name}' already exists."


def test_a_topic_named_twice_is_not_made_at_all(client: Client) -> None:
    first, second, other = create(client, wanted("dup"), wanted("dup"), wanted("beside-dup"))
    for topic in (first, second):
        assert topic.error_code == ErrorCode.invalid_request
        assert topic.error_message == "Found multiple entries for this topic."
    assert other.error_code == ErrorCode.none
    assert "dup" not in names(client)


INVALID_REPLICAS = ErrorCode.invalid_replica_assignment
REFUSED = [
    (wanted("a b"), ErrorCode.invalid_topic_exception, "contains one or more characters"),
    (wanted(""), ErrorCode.invalid_topic_exception, "the empty string is not allowed"),
    (wanted("."), ErrorCode.invalid_topic_exception, "Topic name is invalid: '.' is not allowed"),
    (wanted(".."), ErrorCode.invalid_topic_exception, "'..' is not allowed"),
    (wanted("x" * 250), ErrorCode.invalid_topic_exception, "longer than the max allowed length"),
    (wanted("__cluster_metadata"), ErrorCode.invalid_request, "is prohibited."),
    (wanted("p", 0, 1), ErrorCode.invalid_partitions, "must be larger than 0."),
    (wanted("p", -2, 1), ErrorCode.invalid_partitions, "must be larger than 0."),
    (wanted("r", 1, 0), ErrorCode.invalid_replication_factor, "must be larger than 0."),
    (
        wanted("r", 1, 2),
        ErrorCode.invalid_replication_factor,
        "Replication factor: 2 larger than available brokers: 1.",
    ),
    (configured("c", ("nonsense", "1")), ErrorCode.invalid_config, "Unknown topic config name"),
    (
        configured("c", ("retention.ms", "abc")),
        ErrorCode.invalid_config,
        "Invalid value abc for configuration retention.ms: Not a number of type LONG",
    ),
    (
        configured("c", ("retention.ms", None), ("segment.ms", None)),
        ErrorCode.invalid_config,
        "Null value not supported for topic configs: retention.ms,segment.ms",
    ),
    (
        wanted("both", 1, -1, assignments=(parts(partition_index=0, broker_ids=(0,)),)),
        ErrorCode.invalid_request,
        "Both cannot be used at the same time.",
    ),
    (assigned("a", (0,), first=1), INVALID_REPLICAS, "should be a consecutive 0-based"),
    (assigned("a", (0,), ()), INVALID_REPLICAS, "All partitions should have the same number"),
    (assigned("a", ()), INVALID_REPLICAS, "Cannot have replication factor of 0"),
    (assigned("a", (0, 0)), INVALID_REPLICAS, "Duplicate replica assignment found"),
    (assigned("a", (7,)), INVALID_REPLICAS, "Unknown broker(s) in replica assignment: 7."),
]


@pytest.mark.parametrize(("topic", "code", "message"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_cannot_be_is_refused_and_leaves_nothing(
    client: Client, topic: Any, code: ErrorCode, message: str
) -> None:
    before = names(client)
    (result,) = create(client, topic)
    assert result.error_code == code
    assert message in result.error_message
    assert (result.num_partitions, result.replication_factor) == (-1, -1)
    assert result.configs == ()
    assert names(client) == before


@pytest.mark.parametrize(("first", "second"), [("col.a", "col_a"), ("col_b", "col.b")])
def test_names_that_metrics_cannot_tell_apart_collide(
    client: Client, first: str, second: str
) -> None:
    client.create(first)
    (topic,) = create(client, wanted(second))
    assert topic.error_code == ErrorCode.invalid_topic_exception
    assert topic.error_message == f"Topic '{second}' collides with existing topics: {first}"


def test_one_bad_topic_does_not_spoil_the_others(client: Client) -> None:
    results = create(client, wanted("a b"), wanted("good"))
    assert [r.error_code for r in results] == [ErrorCode.invalid_topic_exception, ErrorCode.none]


def test_of_many_clients_that_make_the_same_topic_one_succeeds(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        clients = [running.client() for _ in range(8)]
        for client in clients:
            client.send(ApiKey.CREATE_TOPICS, 7, topics=(wanted("race"), wanted("ra.ce")))
        answers = [c.receive(ApiKey.CREATE_TOPICS, 7).topics for c in clients]
        for client in clients:
            client.close()
        first = [answer[0].error_code for answer in answers]
        assert sorted(first) == [ErrorCode.none] + [ErrorCode.topic_already_exists] * 7


def test_topics_and_their_configs_survive_a_restart(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        topic_id = client.create("kept", 2, retention_ms="77")
        client.produce("kept", [b"a", b"b"])
    with broker(tmp_path) as running, running.client() as client:
        (topic,) = client.call(ApiKey.METADATA, topics=None).topics
        assert (topic.topic_id, len(topic.partitions)) == (topic_id, 2)
        assert {p.leader_epoch for p in topic.partitions} == {1}
        assert client.offset("kept", -1) == 2
        (result,) = client.call(
            ApiKey.DESCRIBE_CONFIGS,
            resources=(
                parts(resource_type=2, resource_name="kept", configuration_keys=("retention.ms",)),
            ),
        ).results
        assert result.configs[0].value == "77"
