"""TxnOffsetCommit: pending offsets of transactions, ended by markers."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import request_type
from tests.server.raw import Insight, RawClient, known, request, with_broker
from tests.server.test_write_txn_markers import codes as marker_codes
from tests.server.test_write_txn_markers import markers

GROUP, PID = "g", 7


def commit(offset: int, version: int = 3, **values: Any) -> bytes:
    schema: Any = import_module(f"kio.schema.txn_offset_commit.v{version}.request")
    partition = known(
        schema.TxnOffsetCommitRequestPartition,
        partition_index=0,
        committed_offset=offset,
        committed_leader_epoch=-1,
        committed_metadata="",
    )
    message = known(
        schema.TxnOffsetCommitRequest,
        transactional_id="x",
        group_id=GROUP,
        producer_id=PID,
        producer_epoch=0,
        topics=(schema.TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
        **values,
    )
    return request(ApiKey.TXN_OFFSET_COMMIT, version, message)


def fetch_offset(*, require_stable: bool = False) -> bytes:
    schema: Any = import_module("kio.schema.offset_fetch.v7.request")
    message = schema.OffsetFetchRequest(
        group_id=GROUP,
        topics=(schema.OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),),
        require_stable=require_stable,
    )
    assert isinstance(message, request_type(ApiKey.OFFSET_FETCH, 7))
    return request(ApiKey.OFFSET_FETCH, 7, message)


def only(response: Any) -> Any:
    (topic,) = response.topics
    (partition,) = topic.partitions
    return partition


async def ready(insight: Insight) -> tuple[RawClient, int]:
    """A client of a group whose coordinator is loaded, and the group's partition."""
    await insight.create("t")
    client = await insight.connect()
    find: Any = import_module("kio.schema.find_coordinator.v4.request")
    message = find.FindCoordinatorRequest(key_type=0, coordinator_keys=(GROUP,))
    while True:
        found = await client.ask(request(ApiKey.FIND_COORDINATOR, 4, message))
        if found.coordinators[0].error_code is ErrorCode.none:
            break
    # While the offsets are loaded, the response has an error and no topic.
    while (await client.ask(fetch_offset())).error_code is not ErrorCode.none:
        pass
    return client, insight.running.broker.groups.partition_of(GROUP)


UNVERIFIED = {"transaction_partition_verification_enable": "false"}


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("commits", [True, False])
def test_t41_t42_offsets_count_when_the_marker_says_commit(
    tmp_path: Path, version: int, commits: bool
) -> None:
    """T23: the answer to the marker comes when they count (KAFKA-17507)."""

    async def scenario(insight: Insight) -> None:
        client, partition = await ready(insight)
        assert only(await client.ask(commit(5, version))).error_code is ErrorCode.none
        assert only(await client.ask(fetch_offset())).committed_offset == -1
        unstable = only(await client.ask(fetch_offset(require_stable=True)))
        assert unstable.error_code is ErrorCode.unstable_offset_commit
        asked = markers(("__consumer_offsets", partition), commit=commits)
        assert marker_codes(await client.ask(asked)) == [ErrorCode.none]
        stable = only(await client.ask(fetch_offset(require_stable=True)))
        assert stable.committed_offset == (5 if commits else -1)

    with_broker(tmp_path, scenario, **UNVERIFIED)


def test_t41_a_member_that_is_unknown_is_refused_from_version_3_on(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client, _ = await ready(insight)
        asked = commit(5, 3, generation_id=4, member_id="nobody", group_instance_id=None)
        assert only(await client.ask(asked)).error_code is ErrorCode.illegal_generation

    with_broker(tmp_path, scenario, **UNVERIFIED)


def test_t41_without_a_transaction_coordinator_the_client_tries_again(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        client, _ = await ready(insight)
        refused = only(await client.ask(commit(5)))
        assert refused.error_code is ErrorCode.coordinator_load_in_progress

    with_broker(tmp_path, scenario)


def test_t23_a_marker_for_a_group_that_is_not_coordinated_here_is_sent_again(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        client = await insight.connect()
        answer = await client.ask(markers(("__consumer_offsets", 0)))
        assert marker_codes(answer) == [ErrorCode.not_leader_or_follower]

    with_broker(tmp_path, scenario)


def test_t42_reload_replays_offsets_and_markers(tmp_path: Path) -> None:
    """The next coordinator has the offset that was decided, and the one that is not."""

    async def write_all(insight: Insight) -> None:
        client, partition = await ready(insight)
        at = ("__consumer_offsets", partition)
        await client.ask(commit(5))
        await client.ask(markers(at))
        await client.ask(commit(8))

    async def read_all(insight: Insight) -> None:
        client, partition = await ready_again(insight)
        assert only(await client.ask(fetch_offset())).committed_offset == 5
        unstable = only(await client.ask(fetch_offset(require_stable=True)))
        assert unstable.error_code is ErrorCode.unstable_offset_commit
        await client.ask(markers(("__consumer_offsets", partition)))
        assert only(await client.ask(fetch_offset())).committed_offset == 8

    with_broker(tmp_path, write_all, **UNVERIFIED)
    with_broker(tmp_path, read_all, **UNVERIFIED)


async def ready_again(insight: Insight) -> tuple[RawClient, int]:
    client = await insight.connect()
    # While the offsets are loaded, the response has an error and no topic.
    while (await client.ask(fetch_offset())).error_code is not ErrorCode.none:
        pass
    return client, insight.running.broker.groups.partition_of(GROUP)
