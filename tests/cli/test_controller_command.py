"""`barnabas controller` and `barnabas elect` against scripted responses."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.elect_leaders.v2.response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

from barnabas.base.errors import ErrorCode
from barnabas.cli.admin.controller_command import count_words, news
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.describe_controller import DescribeControllerResponse
from barnabas.wire.schema import NO_THROTTLE
from tests.cli.conftest import Barnabas
from tests.cli.scripted_cluster import ScriptedCluster, scripted_cluster

COUNTS = {
    "brokers": 3,
    "topics": 1,
    "partitions": 6,
    "offline_partitions": 0,
    "preferred_imbalance": 0,
    "reassigning": 0,
    "deleting": 0,
}


def event(time_ms: int, name: str) -> dict[str, Any]:
    return {"time_ms": time_ms, "event": name, "took_ms": 1.25, "outcome": "done"}


def state(*events: dict[str, Any], broker: int = 1, epoch: int = 4) -> dict[str, Any]:
    channel = {"queue": 2, "in_flight": "LEADER_AND_ISR"}
    brokers = {str(n): {"epoch": 10 + n, "state": "online", "channel": channel} for n in (10, 2)}
    return {
        "broker": broker,
        "epoch": epoch,
        "elected_ms": 1_700_000_000_000,
        "queue": {"length": 2, "oldest_ms": 7},
        "events": list(events),
        "counts": COUNTS,
        "brokers": brokers,
    }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedCluster]:
    with scripted_cluster(1) as cluster:
        monkeypatch.setenv("BARNABAS_BOOTSTRAP", cluster.bootstrap)
        yield cluster


def tell(cluster: ScriptedCluster, state: dict[str, Any]) -> None:
    text = json.dumps(state)
    cluster.scripts[ApiKey.DESCRIBE_CONTROLLER] = lambda broker, request: (
        DescribeControllerResponse(error_code=ErrorCode.none, state=text)
    )


def test_the_controllers_state_is_printed_as_text(
    cluster: ScriptedCluster, offline: Barnabas
) -> None:
    tell(cluster, state(event(1_700_000_001_000, "BrokerChange")))
    ended = offline("controller")
    assert ended.code == 0
    assert ended.lines[:3] == [
        "controller broker 1, epoch 4, elected 2023-11-14T22:13:20.000Z",
        "queue      2 events, oldest 7 ms",
        "cluster    3 brokers, 1 topic, 6 partitions",
    ]
    assert [line.split()[0] for line in ended.lines[4:6]] == ["2", "10"]
    assert ended.lines[-1].split() == ["2023-11-14T22:13:21.000Z", "BrokerChange", "1.2", "done"]


def test_the_controllers_state_is_printed_as_json(
    cluster: ScriptedCluster, offline: Barnabas
) -> None:
    tell(cluster, state())
    assert json.loads(offline("controller", "--json").out) == state()


def test_counts_that_should_be_zero_are_shown_only_if_they_are_not() -> None:
    words = count_words({**COUNTS, "offline_partitions": 2, "deleting": 1})
    assert words[3:] == ["2 offline", "1 being deleted"]


def test_followed_events_are_printed_once() -> None:
    first, second, third = (event(n, f"E{n}") for n in range(3))
    before = state(first, second)
    assert news(before, before) == []
    (line,) = news(before, state(second, third))
    assert line.split()[1:] == ["E2", "1.2", "ms", "done"]
    assert len(news(state(), before)) == 2
    assert len(news(state(first), state(second, third))) == 2


def test_a_new_controller_is_reported() -> None:
    lines = news(state(event(1, "A")), state(event(2, "B"), broker=2, epoch=5))
    assert lines[0] == "new controller: broker 2, epoch 5"
    assert "B" in lines[1].split()


# Elections


def elections(*results: tuple[int, ErrorCode, str | None]) -> ElectLeadersResponse:
    partitions = tuple(
        PartitionResult(partition_id=number, error_code=code, error_message=message)
        for number, code, message in results
    )
    return ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        replica_election_results=(
            ReplicaElectionResult(topic="orders", partition_result=partitions),
        ),
    )


def test_an_election_covers_all_partitions_of_a_topic(
    cluster: ScriptedCluster, offline: Barnabas
) -> None:
    cluster.topics["orders"] = {1: (0, [0], [0]), 0: (0, [0], [0])}
    answer = elections((0, ErrorCode.none, None), (1, ErrorCode.election_not_needed, "so it is"))
    cluster.scripts[ApiKey.ELECT_LEADERS] = lambda broker, request: answer
    ended = offline("elect", "--topic", "orders")
    assert ended.code == 0
    assert [line.split(maxsplit=2)[1:] for line in ended.lines[1:]] == [
        ["0", "elected"],
        ["1", "not needed"],
    ]
    (request,) = cluster.requests("ElectLeadersRequest")
    assert request.election_type == 0
    (asked,) = request.topic_partitions
    assert (asked.topic, asked.partitions) == ("orders", (0, 1))


def test_a_failed_election_is_reported_and_the_exit_code_is_1(
    cluster: ScriptedCluster, offline: Barnabas
) -> None:
    answer = elections((0, ErrorCode.eligible_leaders_not_available, "nobody lives"))
    cluster.scripts[ApiKey.ELECT_LEADERS] = lambda broker, request: answer
    ended = offline("elect", "--unclean", "--all", "--yes", "--json")
    assert ended.code == 1
    assert "1 of 1 elections failed" in ended.err
    (row,) = json.loads(ended.out)
    assert row["result"] == "nobody lives [ELIGIBLE_LEADERS_NOT_AVAILABLE]"
    (request,) = cluster.requests("ElectLeadersRequest")
    assert (request.election_type, request.topic_partitions) == (1, None)


@pytest.mark.parametrize(
    "arguments",
    [[], ["--all", "--topic", "t"], ["--partition", "0"], ["--all", "--preferred", "--unclean"]],
)
def test_a_wrong_combination_of_options_is_a_usage_error(
    arguments: list[str], offline: Barnabas
) -> None:
    ended = offline("elect", *arguments)
    assert (ended.code, ended.err.count("\n")) == (2, 1)


def test_an_unknown_topic_is_reported_in_one_line(
    cluster: ScriptedCluster, offline: Barnabas
) -> None:
    ended = offline("elect", "--topic", "nope")
    assert ended.code == 1
    assert "topic nope: unknown topic or partition [UNKNOWN_TOPIC_OR_PARTITION]" in ended.err
