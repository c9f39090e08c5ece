"""Asking brokers without librdkafka: whom, and what happens when it is the wrong one."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.cli import raw_client
from barnabas.cli.admin.admin_requests import describe_controller
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.raw_client import RawClient, ask_cluster, parse_addresses
from barnabas.client.retries import Address
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.describe_controller import DescribeControllerResponse
from tests.cli.scripted_cluster import ScriptedCluster, scripted_cluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedCluster]:
    monkeypatch.setattr(raw_client, "_BACK_OFF_S", 0.01)
    with scripted_cluster(2) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("bootstrap", "expected"),
    [
        ("127.0.0.1:9092", [("127.0.0.1", 9092)]),
        ("a:1, b", [("a", 1), ("b", 9092)]),
        ("[::1]:9093,[fe80::1]", [("::1", 9093), ("fe80::1", 9092)]),
        ("PLAINTEXT://kafka:1", [("kafka", 1)]),
    ],
)
def test_brokers_are_read_from_a_bootstrap_list(bootstrap: str, expected: list[Address]) -> None:
    assert parse_addresses(bootstrap) == expected


def test_what_is_no_list_of_brokers_is_refused() -> None:
    with pytest.raises(Misused, match="expected HOST:PORT"):
        parse_addresses("a:b")


def test_the_next_broker_is_asked_if_the_first_does_not_answer(cluster: ScriptedCluster) -> None:
    async def ask(client: RawClient) -> Any:
        return await client.metadata()

    found = ask_cluster(f"127.0.0.1:1,{cluster.bootstrap}", ask)
    assert [broker.node_id for broker in found.brokers] == [0, 1]


def test_no_broker_at_all_is_one_line_with_what_to_do() -> None:
    with pytest.raises(CommandFailed, match=r"at 127\.0\.0\.1:1 \(Connection refused\)"):
        ask_cluster("127.0.0.1:1", lambda client: client.metadata())


def test_a_controller_that_has_moved_is_found(cluster: ScriptedCluster) -> None:
    def answer(broker_id: int, request: Any) -> DescribeControllerResponse:
        if broker_id == 1:
            return DescribeControllerResponse(error_code=ErrorCode.none, state='{"broker": 1}')
        cluster.controller = 1
        return DescribeControllerResponse(error_code=ErrorCode.not_controller, state="")

    cluster.scripts[ApiKey.DESCRIBE_CONTROLLER] = answer
    assert ask_cluster(cluster.bootstrap, describe_controller) == {"broker": 1}
    assert [broker for broker, _ in cluster.asked] == [0, 1]


def test_a_cluster_without_a_controller_is_asked_again_until_it_has_one(
    cluster: ScriptedCluster,
) -> None:
    cluster.controller = -1
    cluster.scripts[ApiKey.DESCRIBE_CONTROLLER] = lambda broker, request: (
        DescribeControllerResponse(error_code=ErrorCode.none, state='{"broker": 0}')
    )

    async def ask(client: RawClient) -> Any:
        asking = asyncio.create_task(describe_controller(client))
        await asyncio.sleep(0.05)
        cluster.controller = 0
        return await asking

    assert ask_cluster(cluster.bootstrap, ask) == {"broker": 0}


def test_a_controller_that_never_answers_is_reported_with_the_reason(
    cluster: ScriptedCluster,
) -> None:
    with pytest.raises(CommandFailed, match=r"the controller does not answer: 127\.0\.0\.1"):
        ask_cluster(cluster.bootstrap, describe_controller)
