"""Error responses: the error is where clients look for it, in every version of every API."""

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client.requests import read_response
from barnabas.server.requests.error_responses import refuse
from barnabas.testing.misuse import Misuse, find_api
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import adapt, request_type, write_response


def of(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def clients_ask() -> list[ApiKey]:
    """All APIs but Metadata, which is served and then marked."""
    found = []
    for key in APIS.keys() - {ApiKey.METADATA}:
        try:
            found.append(find_api(key))
        except Misuse:
            continue
    return sorted(found)


BY_PARTITION = of(name="t", topic="t", partitions=(of(partition_index=3, partition=3),))
RESOURCE = of(resource_type=2, resource_name="t", configs=(of(name="a", value="b"),))

# The request, and the place of the error in the response: a path of fields.
PLACES: dict[ApiKey, tuple[Any, str]] = {
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (of(deletions=(of(name="u"),)), "results"),
    ApiKey.ALTER_CLIENT_QUOTAS: (of(entries=(of(entity=(of(entity_type="user"),)),)), "entries"),
    ApiKey.CREATE_ACLS: (of(creations=(of(resource_name="t"),)), "results"),
    ApiKey.DELETE_ACLS: (of(filters=(of(resource_name_filter="t"),)), "filter_results"),
    ApiKey.PRODUCE: (
        of(acks=1, topic_data=(of(name="t", partition_data=(of(index=3, records=b""),)),)),
        "responses.partition_responses",
    ),
    ApiKey.FETCH: (
        of(topics=(of(topic="t", partitions=(of(partition=3),)),)),
        "responses.partitions",
    ),
    ApiKey.LIST_OFFSETS: (of(topics=(BY_PARTITION,)), "topics.partitions"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (of(topics=(BY_PARTITION,)), "topics.partitions"),
    ApiKey.DELETE_RECORDS: (of(topics=(BY_PARTITION,)), "topics.partitions"),
    ApiKey.OFFSET_COMMIT: (of(group_id="g", topics=(BY_PARTITION,)), "topics.partitions"),
    ApiKey.TXN_OFFSET_COMMIT: (of(group_id="g", topics=(BY_PARTITION,)), "topics.partitions"),
    ApiKey.DESCRIBE_TRANSACTIONS: (of(transactional_ids=("t",)), "transaction_states"),
    ApiKey.CREATE_TOPICS: (of(topics=(of(name="t"),)), "topics"),
    ApiKey.CREATE_PARTITIONS: (of(topics=(of(name="t"),)), "results"),
    ApiKey.DELETE_TOPICS: (of(topics=(of(name="t"),), topic_names=("t",)), "responses"),
    ApiKey.DESCRIBE_CONFIGS: (of(resources=(RESOURCE,)), "results"),
    ApiKey.ALTER_CONFIGS: (of(resources=(RESOURCE,)), "responses"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (of(resources=(RESOURCE,)), "responses"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (of(topics=(of(name="t"),)), "topics"),
    ApiKey.DESCRIBE_GROUPS: (of(groups=("g",)), "groups"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (of(group_ids=("g",)), "groups"),
    ApiKey.DELETE_GROUPS: (of(groups_names=("g",)), "results"),
    ApiKey.FIND_COORDINATOR: (of(key="g", coordinator_keys=("g",)), "coordinators"),
    ApiKey.OFFSET_FETCH: (
        of(
            group_id="g",
            groups=(of(group_id="g"),),
            topics=(of(name="t", partition_indexes=(3,)),),
        ),
        "groups",
    ),
    ApiKey.OFFSET_DELETE: (of(group_id="g", topics=(BY_PARTITION,)), "topics.partitions"),
    ApiKey.ELECT_LEADERS: (
        of(topic_partitions=(of(topic="t", partitions=(3,)),)),
        "replica_election_results.partition_result",
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        of(dirs=(of(path="/disk", topics=(of(name="t", partitions=(3,)),)),)),
        "results.partitions",
    ),
    ApiKey.DESCRIBE_PRODUCERS: (
        of(topics=(of(name="t", partition_indexes=(3,)),)),
        "topics.partitions",
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        of(v3_and_below_topics=(of(name="t", partitions=(3,)),)),
        "",
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        of(topics=(BY_PARTITION,)),
        "responses.partitions",
    ),
}

# The place in versions before batched requests.
EARLIER: dict[tuple[ApiKey, int], str] = {
    **{
        (
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
        ): "results_by_topic_v3_and_below.results_by_partition"
        for version in range(4)
    },
    **{(ApiKey.FIND_COORDINATOR, version): "" for version in range(4)},
    **{(ApiKey.OFFSET_FETCH, version): "" for version in range(2, 8)},
    **{(ApiKey.OFFSET_FETCH, version): "topics.partitions" for version in range(2)},
}
# Earlier versions list only existing log directories.
FIRST_WITH_A_PLACE = {ApiKey.DESCRIBE_LOG_DIRS: 3}
ERROR_CODES = ("error_code", "partition_error_code")


def said(answer: Any, path: str = "") -> Iterator[tuple[str, ErrorCode]]:
    """Every error in a response, with its place."""
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if field.name in ERROR_CODES and value is not ErrorCode.none:
            yield path, value
        for item in value if isinstance(value, tuple) else ():
            if dataclasses.is_dataclass(item):
                yield from said(item, f"{path}.{field.name}".lstrip("."))


@pytest.mark.parametrize("key", clients_ask(), ids=lambda key: key.name)
def test_every_version_has_the_error_once_in_its_place(key: ApiKey) -> None:
    asked, place = PLACES.get(key, (of(), ""))
    for version in range(FIRST_WITH_A_PLACE.get(key, APIS[key].lowest), APIS[key].highest + 1):
        sent = adapt(asked, request_type(key, version))
        response = refuse(key, version, sent, ErrorCode.unknown_server_error)
        expected = EARLIER.get((key, version), place)
        assert list(said(response)) == [(expected, ErrorCode.unknown_server_error)], version
        frame = write_response(key, version, 7, response)
        read_response(key, version, memoryview(frame)[8:])


def test_the_response_names_what_was_requested() -> None:
    asked, _ = PLACES[ApiKey.FETCH]
    sent = adapt(asked, request_type(ApiKey.FETCH, 12))
    answer: Any = refuse(ApiKey.FETCH, 12, sent, ErrorCode.not_leader_or_follower)
    assert answer.responses[0].topic == "t"
    assert answer.responses[0].partitions[0].partition_index == 3
    assert answer.error_code is ErrorCode.none


def test_an_error_of_the_whole_request_is_at_the_top() -> None:
    asked, _ = PLACES[ApiKey.ELECT_LEADERS]
    sent = adapt(asked, request_type(ApiKey.ELECT_LEADERS, 2))
    answer: Any = refuse(ApiKey.ELECT_LEADERS, 2, sent, ErrorCode.not_controller)
    assert list(said(answer)) == [("", ErrorCode.not_controller)]


def test_a_request_that_names_nothing_cannot_fail() -> None:
    sent = adapt(of(), request_type(ApiKey.LIST_OFFSETS, 5))
    assert refuse(ApiKey.LIST_OFFSETS, 5, sent, ErrorCode.not_leader_or_follower) is None
