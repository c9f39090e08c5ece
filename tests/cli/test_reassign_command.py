"""`barnabas reassign` against a scripted cluster."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kio.schema.describe_log_dirs.v4.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.cli.admin.admin_requests import Moving
from barnabas.cli.reassign import reassign_progress
from barnabas.cli.reassign.reassign_plan import parse_plan
from barnabas.cli.reassign.reassign_progress import measure
from barnabas.cli.reassign.reassign_throttle import FOLLOWERS, LEADERS, RATES, throttled_replicas
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import NO_THROTTLE
from tests.cli.conftest import Barnabas
from tests.cli.scripted_cluster import ScriptedCluster, scripted_cluster

ORDERS = TopicPartition("orders", 0)


class Reassigning:
    """A controller that finishes all reassignments after `rounds` list requests."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.rounds = 0
        self.refused: dict[int, ErrorCode] = {}
        self.throttled: list[str] = []
        self.cluster = cluster
        cluster.topics["orders"] = {0: (0, [0, 1], [0, 1]), 1: (1, [1, 0], [1, 0])}
        cluster.scripts = {
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self.alter,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self.under_way,
            ApiKey.DESCRIBE_LOG_DIRS: self.log_dirs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.alter_configs,
            ApiKey.DESCRIBE_CONFIGS: self.configs,
        }

    def alter(self, broker_id: int, request: Any) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            error_message=None,
            responses=tuple(
                ReassignableTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ReassignablePartitionResponse(
                            partition_index=each.partition_index,
                            error_code=self.refused.get(each.partition_index, ErrorCode.none),
                            error_message=None,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )

    def under_way(self, broker_id: int, request: Any) -> ListPartitionReassignmentsResponse:
        self.rounds -= 1
        moving = OngoingPartitionReassignment(
            partition_index=0, replicas=(2, 0, 1), adding_replicas=(2,), removing_replicas=(1,)
        )
        topic = OngoingTopicReassignment(name="orders", partitions=(moving,))
        return ListPartitionReassignmentsResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            error_message=None,
            topics=(topic,) if self.rounds >= 0 else (),
        )

    def log_dirs(self, broker_id: int, request: Any) -> DescribeLogDirsResponse:
        size = 4096 if broker_id == 0 else 1024
        partition = DescribeLogDirsPartition(
            partition_index=0, partition_size=size, offset_lag=0, is_future_key=False
        )
        topic = DescribeLogDirsTopic(name="orders", partitions=(partition,))
        log_dir = DescribeLogDirsResult(error_code=ErrorCode.none, log_dir="/d", topics=(topic,))
        return DescribeLogDirsResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=(log_dir,)
        )

    def alter_configs(self, broker_id: int, request: Any) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=())

    def configs(self, broker_id: int, request: Any) -> DescribeConfigsResponse:
        config = DescribeConfigsResourceResult(
            name=LEADERS,
            value="0:0",
            read_only=False,
            config_source=1,
            is_sensitive=False,
            synonyms=(),
            documentation=None,
        )
        return DescribeConfigsResponse(
            throttle_time=NO_THROTTLE,
            results=tuple(
                DescribeConfigsResult(
                    error_code=ErrorCode.none,
                    error_message=None,
                    resource_type=2,
                    resource_name=each.resource_name,
                    configs=(config,) if each.resource_name in self.throttled else (),
                )
                for each in request.resources
            ),
        )

    def changes(self) -> dict[tuple[int, str], list[dict[str, str | None]]]:
        """The config changes by resource, in order."""
        found: dict[tuple[int, str], list[dict[str, str | None]]] = {}
        for request in self.cluster.requests("IncrementalAlterConfigsRequest"):
            for each in request.resources:
                values = {config.name: config.value for config in each.configs}
                found.setdefault((each.resource_type, each.resource_name), []).append(values)
        return found


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reassigning]:
    monkeypatch.setattr(reassign_progress, "_LOOK_EVERY_S", 0.01)
    with scripted_cluster(3) as cluster:
        monkeypatch.setenv("BARNABAS_BOOTSTRAP", cluster.bootstrap)
        yield Reassigning(cluster)


def test_a_generated_plan_can_be_run(
    controller: Reassigning, offline: Barnabas, tmp_path: Path
) -> None:
    saved, file = tmp_path / "current.json", tmp_path / "plan.json"
    ended = offline("reassign", "generate", "--topics", "orders", "--save-current", saved)
    assert ended.code == 0
    assert parse_plan(saved.read_text(), "") == {
        ORDERS: [0, 1],
        TopicPartition("orders", 1): [1, 0],
    }
    plan = parse_plan(ended.out.decode(), "stdout")
    assert "1 replica to copy" in ended.err
    assert [len(replicas) for replicas in plan.values()] == [2, 2]

    file.write_bytes(ended.out)
    controller.rounds = 2
    ended = offline("reassign", "run", "--file", file)
    assert (ended.code, ended.lines) == (0, ["done: 1 partition"])
    assert ended.err.splitlines() == [
        "started: 2 partitions, 1 replica to copy",
        "0 of 1 partition done, 0 of 1 replica in sync, 1.0 KiB of 4.0 KiB copied",
    ]
    (request,) = controller.cluster.requests("AlterPartitionReassignmentsRequest")
    (topic,) = request.topics
    asked = {
        TopicPartition(topic.name, p.partition_index): list(p.replicas) for p in topic.partitions
    }
    assert asked == plan


def test_a_throttle_is_set_before_and_removed_when_all_are_done(
    controller: Reassigning, offline: Barnabas
) -> None:
    controller.throttled = ["orders"]
    on = ("--partition", "orders:0=2,0", "--throttle", 1000)
    assert offline("reassign", "run", *on).code == 0
    changes = controller.changes()
    rates, none = dict.fromkeys(RATES, "1000"), dict.fromkeys(RATES)
    assert [changes[4, str(broker)] for broker in range(3)] == [[rates, none]] * 3
    assert changes[2, "orders"] == [
        {LEADERS: "0:0,0:1", FOLLOWERS: "0:2"},
        {LEADERS: None, FOLLOWERS: None},
    ]
    kinds = [type(request).__name__ for _, request in controller.cluster.asked]
    assert kinds.index("IncrementalAlterConfigsRequest") < kinds.index(
        "AlterPartitionReassignmentsRequest"
    )


def test_with_no_wait_the_throttle_stays_until_the_next_watch(
    controller: Reassigning, offline: Barnabas
) -> None:
    on = ("--partition", "orders:0=2,0", "--throttle", 1000, "--no-wait")
    assert offline("reassign", "run", *on).code == 0
    assert [len(changes) for changes in controller.changes().values()] == [1] * 4
    controller.throttled = ["orders"]
    ended = offline("reassign", "watch")
    assert (ended.code, ended.lines) == (0, ["no reassignments in progress"])
    assert ended.err == "removed throttles: orders\n"


def test_after_the_timeout_reassignments_continue_and_are_reported(
    controller: Reassigning, offline: Barnabas
) -> None:
    controller.rounds = 1_000_000
    ended = offline("reassign", "watch", "--timeout", 0)
    assert ended.code == 1
    assert "1 reassignment still in progress after 0 s" in ended.err
    assert controller.changes() == {}


def test_a_rejected_partition_is_reported_with_the_reason(
    controller: Reassigning, offline: Barnabas
) -> None:
    controller.refused[1] = ErrorCode.invalid_replica_assignment
    on = ("--partition", "orders:0=2", "--partition", "orders:1=7")
    ended = offline("reassign", "run", *on)
    assert ended.code == 1
    assert ended.err.splitlines() == [
        "orders-1: invalid replica assignment [INVALID_REPLICA_ASSIGNMENT]",
        "barnabas: failed to start 1 of 2",
    ]


def test_reassignments_are_listed(controller: Reassigning, offline: Barnabas) -> None:
    controller.rounds = 2
    lines = offline("reassign", "list").lines
    assert lines[1].split() == ["orders", "0", "2,0,1", "2", "1"]
    (row,) = json.loads(offline("reassign", "list", "--json").out)
    assert (row["adding"], row["removing"]) == ([2], [1])
    assert offline("reassign", "list").lines == ["no reassignments in progress"]


def test_cancel_all_removes_throttles(controller: Reassigning, offline: Barnabas) -> None:
    controller.rounds = 1
    ended = offline("reassign", "cancel", "--all")
    assert (ended.code, ended.lines) == (0, ["cancelled: 1 partition"])
    (request,) = controller.cluster.requests("AlterPartitionReassignmentsRequest")
    (topic,) = request.topics
    assert [(p.partition_index, p.replicas) for p in topic.partitions] == [(0, None)]
    assert controller.changes()[4, "0"] == [dict.fromkeys(RATES)]


def test_only_the_partitions_of_a_plan_are_cancelled(
    controller: Reassigning, offline: Barnabas, tmp_path: Path
) -> None:
    controller.rounds = 1
    file = tmp_path / "plan.json"
    file.write_text('{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[0]}]}')
    ended = offline("reassign", "cancel", "--file", file)
    assert (ended.code, ended.lines) == (0, ["cancelled: 0 partitions"])
    assert controller.changes() == {}


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["run"], 2, "specify either --file PLAN or --partition"),
        (["run", "-p", "orders:9=1"], 1, "unknown partition orders-9; nothing was started"),
        (["run", "-f", "/no/such"], 1, "/no/such: No such file or directory"),
        (["cancel"], 2, "specify either --file PLAN or --all"),
        (["generate", "-t", "nope"], 1, "topic nope: unknown topic or partition"),
        (["generate", "-t", "orders", "--brokers", "a"], 2, "expected broker ids such as 0,1,2"),
        (["generate", "-t", "orders", "--brokers", "0,9"], 1, "unknown broker 9"),
    ],
)
def test_an_error_is_reported_in_one_line(
    arguments: list[str], code: int, error: str, controller: Reassigning, offline: Barnabas
) -> None:
    ended = offline("reassign", *arguments)
    assert (ended.code, ended.err.count("\n")) == (code, 1)
    assert error in ended.err


# Without a cluster


def test_current_replicas_are_throttled_as_leaders_and_new_ones_as_followers() -> None:
    current = {ORDERS: [0, 1], TopicPartition("users", 3): [1]}
    plan = {ORDERS: [1, 2, 3], TopicPartition("users", 3): [1]}
    assert throttled_replicas(current, plan) == {
        "orders": {LEADERS: "0:0,0:1", FOLLOWERS: "0:2,0:3"},
        "users": {LEADERS: "3:1"},
    }


def test_progress_counts_in_sync_replicas_and_bytes_of_the_others() -> None:
    other = TopicPartition("orders", 1)
    seen = {ORDERS: Moving((2, 0), (2, 3), ()), other: Moving((2, 0), (2,), ())}
    now = {ORDERS: seen[ORDERS]}
    sizes = {(ORDERS, 0): 100, (ORDERS, 3): 50}
    progress = measure(seen, now, {ORDERS: frozenset({0, 2})}, sizes, {ORDERS: 0})
    assert progress == (2, 1, 3, 2, 50, 100)
    assert progress.fraction == pytest.approx(2.5 / 3)
    assert "1 of 2 partitions done, 2 of 3 replicas in sync, 50 B of 100 B" in str(progress)


def test_a_reassignment_that_only_removes_is_measured_by_partitions() -> None:
    seen = {ORDERS: Moving((0, 1), (), (1,))}
    assert measure(seen, seen, {}, {}, {}).fraction == 0.0
    assert measure(seen, {}, {}, {}, {}).fraction == 1.0
