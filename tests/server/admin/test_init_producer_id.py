"""InitProducerId: no id is given twice, and what is not served is refused."""

import shutil
from pathlib import Path

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client
from tests.server.admin.running import broker

VERSIONS = range(6)


def next_id(client: Client, version: int = 5) -> int:
    response = client.call(ApiKey.INIT_PRODUCER_ID, version, transactional_id=None)
    assert (response.error_code, response.producer_epoch) == (ErrorCode.none, 0)
    return int(response.producer_id)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_producer_gets_an_id_of_its_own(client: Client, version: int) -> None:
    first, second = next_id(client, version), next_id(client, version)
    assert second == first + 1


def test_more_than_a_block_of_ids_are_all_different(client: Client) -> None:
    ids = [next_id(client) for _ in range(1100)]
    assert len(set(ids)) == len(ids)


def test_clients_at_once_get_different_ids(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        clients = [running.client() for _ in range(10)]
        for client in clients:
            client.send(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None)
        ids = [c.receive(ApiKey.INIT_PRODUCER_ID, 5).producer_id for c in clients]
        for client in clients:
            client.close()
        assert sorted(ids) == list(range(10))


def test_no_id_comes_again_after_a_stop_or_a_crash(tmp_path: Path) -> None:
    folder, crashed = tmp_path / "data", tmp_path / "crashed"
    with broker(folder) as running, running.client() as client:
        given = [next_id(client)]
    with broker(folder) as running, running.client() as client:
        given.append(next_id(client))
        shutil.copytree(folder, crashed, ignore=shutil.ignore_patterns("*.tmp"))
    with broker(crashed) as running, running.client() as client:
        given.append(next_id(client))
    assert given == [0, 1000, 2000]


@pytest.mark.parametrize("version", range(3, 6))
def test_a_producer_that_brings_its_id_gets_a_new_one(client: Client, version: int) -> None:
    response = client.call(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=None,
        producer_id=123_456_789,
        producer_epoch=3,
    )
    assert (response.error_code, response.producer_epoch) == (ErrorCode.none, 0)
    assert response.producer_id != 123_456_789


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_half_an_identity_is_refused(client: Client, producer_id: int, epoch: int) -> None:
    response = client.call(
        ApiKey.INIT_PRODUCER_ID,
        5,
        transactional_id=None,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    assert response.error_code == ErrorCode.invalid_request
    assert (response.producer_id, response.producer_epoch) == (-1, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_transactional_id_is_refused(client: Client, version: int) -> None:
    """T9"""
    response = client.call(ApiKey.INIT_PRODUCER_ID, version, transactional_id="")
    assert response.error_code == ErrorCode.invalid_request
    assert response.producer_id == -1
