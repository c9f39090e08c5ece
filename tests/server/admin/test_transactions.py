"""The APIs of the transaction coordinator, asked of a real broker."""

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.coordinator_topic import partition_of
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client, parts
from tests.server.admin.running import broker, until

RETRIED = (
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator,
    ErrorCode.concurrent_transactions,
)
TIMEOUT = {"transaction_timeout": timedelta(minutes=1)}


def retried(ask: Callable[[], Any], code: Callable[[Any], ErrorCode]) -> Any:
    """The first response that is not a call to try again."""
    deadline = time.monotonic() + 20
    while True:
        response = ask()
        if code(response) not in RETRIED or time.monotonic() > deadline:
            return response
        time.sleep(0.05)


def find(client: Client, name: str) -> Any:
    """The coordinator; the topic is created with the first one."""

    def ask() -> Any:
        (found,) = client.call(
            ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=(name,)
        ).coordinators
        return found

    return retried(ask, lambda found: found.error_code)


def init(client: Client, name: str, version: int = 5, **fields: Any) -> Any:
    find(client, name)
    return retried(
        lambda: client.call(
            ApiKey.INIT_PRODUCER_ID, version, transactional_id=name, **(TIMEOUT | fields)
        ),
        lambda response: response.error_code,
    )


def create(client: Client, topic: str) -> None:
    wanted = parts(name=topic, num_partitions=3, replication_factor=1, assignments=(), configs=())
    (made,) = client.call(ApiKey.CREATE_TOPICS, 5, topics=(wanted,)).topics
    assert made.error_code in (ErrorCode.none, ErrorCode.topic_already_exists)


def add(
    client: Client,
    name: str,
    producer: Any,
    partitions: dict[str, tuple[int, ...]],
    version: int = 3,
) -> dict[tuple[str, int], ErrorCode]:
    response = client.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=tuple(
            parts(name=topic, partitions=indexes) for topic, indexes in partitions.items()
        ),
    )
    return by_partition(response.results_by_topic_v3_and_below)


def verify(
    client: Client, *transactions: Any, version: int = 5
) -> dict[str, dict[tuple[str, int], ErrorCode]]:
    response = client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=transactions)
    assert response.error_code is ErrorCode.none
    return {
        each.transactional_id: by_partition(each.topic_results)
        for each in response.results_by_transaction
    }


def of_broker(name: str, producer: Any, verify_only: bool, **topics: tuple[int, ...]) -> Any:
    return parts(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verify_only,
        topics=tuple(parts(name=topic, partitions=each) for topic, each in topics.items()),
    )


def by_partition(topics: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in topics
        for each in topic.results_by_partition
    }


def end(client: Client, name: str, producer: Any, committed: bool = True, version: int = 5) -> Any:
    return client.call(
        ApiKey.END_TXN,
        version,
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=committed,
    )


def describe(client: Client, name: str) -> Any:
    (state,) = client.call(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=(name,)
    ).transaction_states
    return state


def is_in(client: Client, name: str, state: str) -> bool:
    return bool(describe(client, name).transaction_state == state)


def states(client: Client, **filters: Any) -> dict[str, str]:
    response = client.call(ApiKey.LIST_TRANSACTIONS, 1, **filters)
    assert response.error_code is ErrorCode.none
    return {each.transactional_id: each.transaction_state for each in response.transaction_states}


# -- the coordinator ---------------------------------------------------------


def test_the_first_client_causes_the_topic_to_be_created(client: Client) -> None:
    """T1, T2"""
    found = find(client, "t1")
    assert (found.error_code, found.node_id) == (ErrorCode.none, 0)
    (topic,) = client.call(ApiKey.METADATA, 12, topics=(parts(name="__transaction_state"),)).topics
    assert topic.is_internal
    assert len(topic.partitions) == 50
    resource = parts(resource_type=2, resource_name="__transaction_state", configuration_keys=None)
    (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=(resource,)).results
    configs = {each.name: each.value for each in result.configs}
    assert configs["cleanup.policy"] == "compact"
    assert configs["compression.type"] == "uncompressed"
    assert configs["segment.bytes"] == "104857600"
    assert configs["unclean.leader.election.enable"] == "false"
    assert configs["min.insync.replicas"] == "1", "there is one broker"


def test_the_partition_of_an_id_is_kafkas() -> None:
    """T1: the hash of Java's strings; the least integer counts as 0"""
    assert partition_of("hello", 50) == 99162322 % 50
    assert partition_of("polygenelubricants", 50) == 0  # its hash is the least integer


def test_an_empty_id_has_no_coordinator(client: Client) -> None:
    """T1"""
    (found,) = client.call(
        ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=("",)
    ).coordinators
    assert found.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", range(6))
def test_a_producer_gets_an_epoch_after_the_one_before(client: Client, version: int) -> None:
    """T10"""
    name = f"init-{version}"
    first, second = init(client, name, version), init(client, name, version)
    assert (first.error_code, first.producer_epoch) == (ErrorCode.none, 0)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)


def test_a_timeout_above_the_limit_is_refused(client: Client) -> None:
    """T9"""
    for timeout in (timedelta(0), timedelta(minutes=15, milliseconds=1)):
        response = init(client, "late", transaction_timeout=timeout)
        assert response.error_code is ErrorCode.invalid_transaction_timeout


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.invalid_producer_epoch), (4, ErrorCode.producer_fenced)],
)
def test_a_fenced_producer_gets_the_error_that_its_version_knows(
    client: Client, version: int, code: ErrorCode
) -> None:
    """T16"""
    name = f"fenced-{version}"
    old = init(client, name)
    init(client, name)
    init(client, name)
    again = init(
        client,
        name,
        version,
        producer_id=old.producer_id,
        producer_epoch=old.producer_epoch,
    )
    assert again.error_code is code


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.invalid_producer_epoch), (2, ErrorCode.producer_fenced)],
)
def test_other_requests_of_a_fenced_producer_get_it_too(
    client: Client, version: int, code: ErrorCode
) -> None:
    """T16"""
    create(client, "orders")
    name = f"fenced-else-{version}"
    old = init(client, name)
    init(client, name)
    assert set(add(client, name, old, {"orders": (0,)}, version).values()) == {code}
    assert end(client, name, old, version=version).error_code is code
    offsets = client.call(
        ApiKey.ADD_OFFSETS_TO_TXN,
        version,
        transactional_id=name,
        producer_id=old.producer_id,
        producer_epoch=old.producer_epoch,
        group_id="g",
    )
    assert offsets.error_code is code


# -- partitions --------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_one_unknown_partition_fails_all_and_none_is_added(client: Client, version: int) -> None:
    """T17"""
    create(client, "orders")
    name = f"add-{version}"
    producer = init(client, name)
    codes = add(client, name, producer, {"orders": (0, 7), "nowhere": (0,)}, version)
    assert codes == {
        ("orders", 0): ErrorCode.operation_not_attempted,
        ("orders", 7): ErrorCode.unknown_topic_or_partition,
        ("nowhere", 0): ErrorCode.unknown_topic_or_partition,
    }
    assert describe(client, name).transaction_state == "Empty"
    codes = add(client, name, producer, {"orders": (0, 1)}, version)
    assert codes == {("orders", 0): ErrorCode.none, ("orders", 1): ErrorCode.none}
    described = describe(client, name)
    assert described.transaction_state == "Ongoing"
    assert [(each.topic, each.partitions) for each in described.topics] == [("orders", (0, 1))]


@pytest.mark.parametrize("version", [4, 5])
def test_a_broker_verifies_and_adds_partitions_of_several_transactions(
    client: Client, version: int
) -> None:
    """T18"""
    create(client, "orders")
    one, two = init(client, f"v-{version}-one"), init(client, f"v-{version}-two")
    add(client, f"v-{version}-one", one, {"orders": (0,)})
    codes = verify(
        client,
        of_broker(f"v-{version}-one", one, True, orders=(0, 1)),
        of_broker(f"v-{version}-two", two, False, orders=(2,)),
        of_broker(f"v-{version}-none", two, True, orders=(2,)),
        version=version,
    )
    assert codes == {
        f"v-{version}-one": {
            ("orders", 0): ErrorCode.none,
            ("orders", 1): ErrorCode.transaction_abortable,
        },
        f"v-{version}-two": {("orders", 2): ErrorCode.none},
        f"v-{version}-none": {("orders", 2): ErrorCode.invalid_producer_id_mapping},
    }
    assert describe(client, f"v-{version}-two").transaction_state == "Ongoing"


@pytest.mark.parametrize("version", range(5))
def test_the_partition_of_a_group_is_added_also_where_its_topic_does_not_exist(
    client: Client, version: int
) -> None:
    """T19"""
    name = f"offsets-{version}"
    producer = init(client, name)
    response = client.call(
        ApiKey.ADD_OFFSETS_TO_TXN,
        version,
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id="billing",
    )
    assert response.error_code is ErrorCode.none
    (topic,) = describe(client, name).topics
    assert (topic.topic, topic.partitions) == (
        "__consumer_offsets",
        (partition_of("billing", 50),),
    )


# -- the end -----------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_an_end_without_a_transaction_is_refused(client: Client, version: int) -> None:
    """T20"""
    name = f"end-{version}"
    producer = init(client, name)
    assert end(client, name, producer, version=version).error_code is ErrorCode.invalid_txn_state
    assert end(client, "", producer, version=version).error_code is ErrorCode.invalid_request


def test_version_5_returns_the_epoch_to_go_on_with(client: Client) -> None:
    """T20, KIP-890"""
    producer = init(client, "bumped")
    reply = end(client, "bumped", producer, committed=False)
    assert reply.error_code is ErrorCode.none
    assert (reply.producer_id, reply.producer_epoch) == (producer.producer_id, 1)
    again = retried(
        lambda: end(client, "bumped", producer, committed=False), lambda it: it.error_code
    )
    assert (again.error_code, again.producer_epoch) == (ErrorCode.none, 1)


def test_a_late_end_hits_a_later_transaction_only_where_they_share_an_epoch(client: Client) -> None:
    """T20: the hole of Kafka 3.9's protocol, and KIP-890 part 2, which closes it"""
    create(client, "orders")
    for version, outcome in ((4, "CompleteCommit"), (5, "Ongoing")):
        name = f"late-{version}"
        first = init(client, name)
        add(client, name, first, {"orders": (0,)})
        ended = end(client, name, first, version=version)
        assert ended.error_code is ErrorCode.none
        second = ended if version == 5 else first

        def begun(name: str = name, producer: Any = second) -> bool:
            return set(add(client, name, producer, {"orders": (1,)}).values()) == {ErrorCode.none}

        until(begun, "the second transaction")
        late = end(client, name, first, version=version)
        fenced = late.error_code is ErrorCode.producer_fenced
        assert fenced == (version == 5)
        until(partial(is_in, client, name, outcome), outcome)


# -- operators ---------------------------------------------------------------


def test_transactions_are_listed_by_state_producer_and_duration(client: Client) -> None:
    """T44"""
    create(client, "orders")
    idle, busy = init(client, "list-idle"), init(client, "list-busy")
    add(client, "list-busy", busy, {"orders": (0,)})
    assert states(client)["list-idle"] == "Empty"
    assert "list-idle" not in states(client, state_filters=("Ongoing",))
    assert states(client, state_filters=("Ongoing",))["list-busy"] == "Ongoing"
    assert states(client, producer_id_filters=(idle.producer_id,)) == {"list-idle": "Empty"}
    assert "list-busy" not in states(client, duration_filter=60_000)
    assert "list-idle" not in states(client, duration_filter=0)
    response = client.call(ApiKey.LIST_TRANSACTIONS, 1, state_filters=("Nowhere", "Empty"))
    assert response.unknown_state_filters == ("Nowhere",)


def test_an_unknown_id_is_described_as_such(client: Client) -> None:
    """T44"""
    find(client, "any")
    assert describe(client, "never").error_code is ErrorCode.transactional_id_not_found
    assert describe(client, "").error_code is ErrorCode.invalid_request


def test_a_described_transaction_has_its_producer_timeout_and_start(client: Client) -> None:
    """T44"""
    create(client, "orders")
    producer = init(client, "described")
    before = describe(client, "described")
    assert (before.transaction_timeout_ms, before.transaction_start_time_ms) == (60_000, -1)
    add(client, "described", producer, {"orders": (1,)})
    after = describe(client, "described")
    assert after.transaction_start_time_ms > 0
    assert (after.producer_id, after.producer_epoch) == (producer.producer_id, 0)


# -- features ----------------------------------------------------------------


def test_version_2_of_transactions_is_finalized_where_all_brokers_have_it(client: Client) -> None:
    until(lambda: levels(client) == {"transaction.version": 2}, "version 2")
    response = client.call(
        ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1"
    )
    assert response.finalized_features_epoch >= 0
    (supported,) = response.supported_features
    assert (supported.name, supported.max_version) == ("transaction.version", 2)


def levels(client: Client) -> dict[str, int]:
    response = client.call(
        ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1"
    )
    return {each.name: each.max_version_level for each in response.finalized_features}


def update(client: Client, version: int, level: int, **fields: Any) -> ErrorCode:
    wanted = parts(feature="transaction.version", max_version_level=level, **fields)
    response = client.call(ApiKey.UPDATE_FEATURES, version, feature_updates=(wanted,))
    assert response.error_code is ErrorCode.none
    (result,) = response.results
    return ErrorCode(result.error_code)


def test_an_operator_changes_the_version_of_transactions(client: Client) -> None:
    until(lambda: levels(client) == {"transaction.version": 2}, "version 2")
    assert update(client, 1, 0) is ErrorCode.invalid_request, "a downgrade must be allowed"
    assert update(client, 1, 3) is ErrorCode.invalid_request
    assert update(client, 1, 0, upgrade_type=2) is ErrorCode.none
    until(lambda: levels(client) == {}, "no version")
    assert update(client, 0, 2, allow_downgrade=False) is ErrorCode.none
    until(lambda: levels(client) == {"transaction.version": 2}, "version 2 again")


def test_transactions_stop_when_the_partition_count_of_their_topic_changes(tmp_path: Path) -> None:
    """T2: an id would have another partition, without its state"""
    with broker(tmp_path) as running, running.client() as client:
        producer = init(client, "t")
        assert producer.error_code is ErrorCode.none
        wanted = parts(name="__transaction_state", count=51, assignments=None)
        (grown,) = client.call(ApiKey.CREATE_PARTITIONS, 3, topics=(wanted,)).results
        assert grown.error_code is ErrorCode.none

        def is_refused() -> bool:
            response = client.call(ApiKey.INIT_PRODUCER_ID, 5, transactional_id="t", **TIMEOUT)
            return bool(response.error_code == ErrorCode.coordinator_not_available)

        until(is_refused, "the coordinator to stop")


def test_a_restarted_broker_knows_its_transactions(tmp_path: Path) -> None:
    """T7"""
    with broker(tmp_path) as running, running.client() as client:
        create(client, "orders")
        producer = init(client, "t")
        add(client, "t", producer, {"orders": (0, 2)})
    with broker(tmp_path) as running, running.client() as client:
        find(client, "t")
        until(lambda: describe(client, "t").error_code is ErrorCode.none, "the transaction")
        described = describe(client, "t")
        assert described.transaction_state == "Ongoing"
        assert (described.producer_id, described.producer_epoch) == (producer.producer_id, 0)
        assert [(each.topic, each.partitions) for each in described.topics] == [("orders", (0, 2))]
        assert end(client, "t", producer).error_code is ErrorCode.none
        until(
            lambda: describe(client, "t").transaction_state == "CompleteCommit",
            "the markers and the completion",
        )
