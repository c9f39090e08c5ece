"""A request that names a thing again and again gets one description of it, or an error."""

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client, parts
from tests.server.admin.running import until

TIMES = 50
TOPIC_RESOURCE = 2


@pytest.fixture
def topic(client: Client) -> str:
    name = "named"
    if not any(each.name == name for each in client.call(ApiKey.METADATA, topics=None).topics):
        client.create(name, partitions=2)
    return name


def test_a_resource_is_described_once(client: Client, topic: str) -> None:
    asked = parts(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
    (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, resources=(asked,) * TIMES).results
    assert len(result.configs) > 20


@pytest.mark.parametrize(
    ("key", "field"),
    [(ApiKey.DESCRIBE_GROUPS, "groups"), (ApiKey.CONSUMER_GROUP_DESCRIBE, "group_ids")],
)
def test_a_group_is_described_once(client: Client, key: ApiKey, field: str) -> None:
    asked: dict[str, Any] = {field: ("one", "two") * TIMES}
    response = client.call(key, **asked)
    assert [group.group_id for group in response.groups] == ["one", "two"]


def test_a_transaction_is_described_once(client: Client) -> None:
    response = client.call(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=("one", "two") * TIMES)
    assert [each.transactional_id for each in response.transaction_states] == ["one", "two"]


def test_the_producers_of_a_partition_are_described_once(client: Client, topic: str) -> None:
    client.produce(topic, [b"v"], producer=(7, 0, 0))
    asked = parts(name=topic, partition_indexes=(0, 1, 0, 0))
    response = client.call(ApiKey.DESCRIBE_PRODUCERS, topics=(asked, asked))
    found = [
        (each.partition_index, each.error_code, len(each.active_producers))
        for answered in response.topics
        for each in answered.partitions
    ]
    refused = (0, ErrorCode.invalid_request, 0)
    assert found[:4] == [(0, ErrorCode.none, 1), (1, ErrorCode.none, 0), refused, refused]
    assert {code for _, code, _ in found[4:]} == {ErrorCode.invalid_request}


def fetched(client: Client, *groups: Any) -> Any:
    """The response once the coordinator is there."""
    responses: list[Any] = []

    def is_served() -> bool:
        client.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=("g",))
        response = client.call(ApiKey.OFFSET_FETCH, groups=groups, require_stable=False)
        responses.append(response)
        waits = (
            ErrorCode.not_coordinator,
            ErrorCode.coordinator_not_available,
            ErrorCode.coordinator_load_in_progress,
        )
        return not any(each.error_code in waits for each in response.groups)

    until(is_served, "the coordinator")
    return responses[-1]


def test_the_offset_of_a_partition_is_fetched_once(client: Client, topic: str) -> None:
    asked = parts(name=topic, partition_indexes=(0, 1) * TIMES)
    group = parts(group_id="g", member_id=None, member_epoch=-1, topics=(asked, asked))
    (found,) = fetched(client, group).groups
    (answered,) = found.topics
    assert [each.partition_index for each in answered.partitions] == [0, 1]


def test_offsets_of_thousands_of_partitions_are_fetched_in_the_order_of_the_request(
    client: Client,
) -> None:
    asked = [("a", 2_500), ("empty", 0), ("b", 1), ("c", 999), ("d", 1_001)]
    topics = tuple(parts(name=name, partition_indexes=tuple(range(n))) for name, n in asked)
    group = parts(group_id="g", member_id=None, member_epoch=-1, topics=topics)
    (found,) = fetched(client, group).groups
    assert [(each.name, len(each.partitions)) for each in found.topics] == asked
    assert [each.partition_index for each in found.topics[0].partitions] == list(range(2_500))


def test_a_group_whose_offsets_are_asked_for_twice_is_refused(client: Client, topic: str) -> None:
    once = parts(group_id="g", member_id=None, member_epoch=-1, topics=None)
    twice = parts(group_id="h", member_id=None, member_epoch=-1, topics=None)
    codes = [
        (each.group_id, each.error_code) for each in fetched(client, once, twice, twice).groups
    ]
    refused = ("h", ErrorCode.invalid_request)
    assert codes == [("g", ErrorCode.none), refused, refused]


def test_a_feature_that_is_updated_twice_is_refused(client: Client) -> None:
    update = parts(feature="transaction.version", max_version_level=1, upgrade_type=1)
    response = client.call(
        ApiKey.UPDATE_FEATURES, feature_updates=(update,) * 3, validate_only=True
    )
    assert [each.error_code for each in response.results] == [ErrorCode.invalid_request] * 3


def test_topics_that_do_not_exist_count_for_the_limit_of_a_page(client: Client) -> None:
    names = tuple(parts(name=f"missing-{number}") for number in range(10))
    response = client.call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=names,
        response_partition_limit=4,
        cursor=None,
    )
    assert len(response.topics) == 4
    assert response.next_cursor.topic_name == "missing-4"
