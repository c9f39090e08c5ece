"""ListOffsets and OffsetForLeaderEpoch: where a partition begins, ends and changed its leader."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import EARLIEST, LATEST, Client, parts
from tests.server.admin.running import broker

MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -3, -4, -5
VERSIONS = range(1, 10)


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    """Five records with times 1000, 1001, 5000, 5001, 3000; the first is deleted."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    client.create(name)
    client.produce(name, [b"a", b"b"], timestamp=1000)
    client.produce(name, [b"c", b"d"], timestamp=5000)
    client.produce(name, [b"e"], timestamp=3000)
    asked = parts(name=name, partitions=(parts(partition_index=0, offset=1),))
    client.call(ApiKey.DELETE_RECORDS, topics=(asked,))
    return name


@pytest.mark.parametrize("version", VERSIONS)
def test_the_ends_of_a_log(client: Client, topic: str, version: int) -> None:
    earliest = client.list_offsets(topic, EARLIEST, version)
    latest = client.list_offsets(topic, LATEST, version)
    assert (earliest.error_code, earliest.timestamp, earliest.offset) == (0, -1, 1)
    assert (latest.error_code, latest.timestamp, latest.offset) == (0, -1, 5)
    if version >= 4:
        assert (earliest.leader_epoch, latest.leader_epoch) == (0, 0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(0, (1001, 1)), (1001, (1001, 1)), (1002, (5000, 2)), (5001, (5001, 3)), (5002, (-1, -1))],
)
def test_a_time_is_found_by_the_first_record_not_before_it(
    client: Client, topic: str, version: int, timestamp: int, found: tuple[int, int]
) -> None:
    answer = client.list_offsets(topic, timestamp, version)
    assert (answer.error_code, (answer.timestamp, answer.offset)) == (0, found)


def test_what_a_version_does_not_know_is_refused(client: Client, topic: str) -> None:
    since = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, -6: 99}
    for timestamp, first in since.items():
        for version in VERSIONS:
            answer = client.list_offsets(topic, timestamp, version)
            served = version >= first
            assert (answer.error_code == ErrorCode.none) is served
            if not served:
                assert answer.error_code == ErrorCode.unsupported_version
                assert (answer.timestamp, answer.offset) == (-1, -1)


def test_the_special_times(client: Client, topic: str) -> None:
    assert client.offset(topic, MAX_TIMESTAMP) == 3
    assert client.list_offsets(topic, MAX_TIMESTAMP).timestamp == 5001
    assert client.offset(topic, EARLIEST_LOCAL) == 1
    tiered = client.list_offsets(topic, LATEST_TIERED)
    assert (tiered.error_code, tiered.offset, tiered.leader_epoch) == (0, -1, -1)


def test_an_empty_log_has_no_time(client: Client) -> None:
    client.create("empty")
    for timestamp in (MAX_TIMESTAMP, 0):
        answer = client.list_offsets("empty", timestamp)
        assert (answer.error_code, answer.timestamp, answer.offset) == (0, -1, -1)
    assert client.offset("empty", EARLIEST) == client.offset("empty", LATEST) == 0


@pytest.mark.parametrize("version", range(2, 10))
def test_without_transactions_all_is_committed(client: Client, topic: str, version: int) -> None:
    assert client.list_offsets(topic, LATEST, version, isolation_level=1).offset == 5


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_is_not_there(client: Client, topic: str, version: int) -> None:
    for name, partition in ((topic, 1), (topic, -1), ("nowhere", 0)):
        answer = client.list_offsets(name, LATEST, version, partition=partition)
        assert answer.error_code == ErrorCode.unknown_topic_or_partition
        assert (answer.timestamp, answer.offset) == (-1, -1)


def test_a_partition_asked_for_twice_is_refused_twice(client: Client, topic: str) -> None:
    asked = parts(partition_index=0, timestamp=LATEST)
    (answer,) = client.call(
        ApiKey.LIST_OFFSETS, topics=(parts(name=topic, partitions=(asked, asked)),)
    ).topics
    assert [p.error_code for p in answer.partitions] == [ErrorCode.invalid_request] * 2


@pytest.mark.parametrize("version", range(4, 10))
def test_a_client_with_another_leader_epoch_gets_an_error(
    client: Client, topic: str, version: int
) -> None:
    assert client.list_offsets(topic, LATEST, version, epoch=0).error_code == ErrorCode.none
    newer = client.list_offsets(topic, LATEST, version, epoch=1)
    assert newer.error_code == ErrorCode.unknown_leader_epoch


# -- epochs -------------------------------------------------------------------


def epoch_end(
    client: Client, topic: str, epoch: int, version: int = 4, *, known: int = -1, partition: int = 0
) -> Any:
    asked = parts(partition=partition, leader_epoch=epoch, current_leader_epoch=known)
    response = client.call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        version,
        replica_id=-1,
        topics=(parts(topic=topic, partitions=(asked,)),),
    )
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(2, 5))
def test_where_epochs_ended(tmp_path: Path, version: int) -> None:
    # Epoch 0 writes two records, 1 none, 2 one, 3 none.
    written = {0: [b"a", b"b"], 2: [b"c"]}
    ends = {-1: (-1, -1), 0: (0, 2), 1: (0, 2), 2: (2, 3), 3: (3, 3), 4: (-1, -1)}
    for epoch in range(4):
        with broker(tmp_path) as running, running.client() as client:
            if epoch == 0:
                client.create("t")
            assert client.offset("t", LATEST) == (0, 2, 2, 3)[epoch]
            if epoch in written:
                client.produce("t", written[epoch])
            if epoch == 3:
                for asked, end in ends.items():
                    found = epoch_end(client, "t", asked, version)
                    assert found.error_code == ErrorCode.none
                    assert (found.leader_epoch, found.end_offset) == end, asked
                assert client.list_offsets("t", LATEST).leader_epoch == 3
                assert client.list_offsets("t", EARLIEST).leader_epoch == 0
                fenced = client.list_offsets("t", LATEST, epoch=2)
                assert fenced.error_code == ErrorCode.fenced_leader_epoch
                fenced = epoch_end(client, "t", 2, version, known=2)
                assert fenced.error_code == ErrorCode.fenced_leader_epoch


def test_the_latest_offset_before_a_restart_is_no_truncation_after_it(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("t")
        client.produce("t")
    for _ in range(3):
        with broker(tmp_path) as running, running.client() as client:
            told = client.list_offsets("t", LATEST)
        with broker(tmp_path) as running, running.client() as client:
            assert epoch_end(client, "t", told.leader_epoch).end_offset >= told.offset


def test_an_empty_log_ends_every_epoch_at_its_end(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("t")
        assert client.list_offsets("t", EARLIEST).leader_epoch == 0
    with broker(tmp_path) as running, running.client() as client:
        ends = [epoch_end(client, "t", epoch) for epoch in (0, 1, 2)]
        assert [(e.leader_epoch, e.end_offset) for e in ends] == [(0, 0), (1, 0), (-1, -1)]


@pytest.mark.parametrize("version", range(2, 5))
def test_epochs_of_a_partition_that_is_not_there(client: Client, version: int) -> None:
    found = epoch_end(client, "nowhere", 0, version)
    assert found.error_code == ErrorCode.unknown_topic_or_partition
    assert (found.leader_epoch, found.end_offset) == (-1, -1)


def test_epochs_asked_with_a_newer_one_than_the_leaders(client: Client) -> None:
    client.create("newer")
    assert epoch_end(client, "newer", 0, known=9).error_code == ErrorCode.unknown_leader_epoch
