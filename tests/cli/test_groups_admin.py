"""A coordinator that is not ready is asked again, and one that refuses is not."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition as Partition
from barnabas.cli.admin.admin_requests import PartitionOutcome
from barnabas.cli.client import ClusterClients
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.groups.groups_admin import GroupAdmin
from barnabas.cli.groups.groups_requests import delete_offsets
from barnabas.cli.raw_client import ask_cluster
from barnabas.wire.apis import ApiKey
from tests.cli.scripted_cluster import scripted_cluster

ORDERS = Partition("orders", 0)
LOADING, REFUSED = KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.GROUP_AUTHORIZATION_FAILED


class ScriptedClient:
    """Answers each call with the next of its answers, of which an error is a failure."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.waits = 0
        self.connected = 0

    def poll(self, timeout: float) -> None:
        self.waits += 1

    def list_topics(self, timeout: float) -> Any:
        leader = SimpleNamespace(leader=0)
        topic = SimpleNamespace(partitions={0: leader, 1: leader})
        return SimpleNamespace(brokers={0: None}, topics={"orders": topic})

    def list_consumer_groups(self, **options: object) -> Any:
        return self._answer()

    def list_consumer_group_offsets(self, asked: list[Any], **options: object) -> Any:
        return {each.group_id: self._answer() for each in asked}

    alter_consumer_group_offsets = list_consumer_group_offsets

    def list_offsets(self, asked: dict[TopicPartition, object], **options: object) -> Any:
        return {each: self._answer() for each in asked}

    def _answer(self) -> "Future[Any]":
        answer: Future[Any] = Future()
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(given, int):
            answer.set_exception(KafkaException(KafkaError(given)))
        else:
            answer.set_result(given)
        return answer

    def admin(self) -> tuple["ScriptedClient", Any]:
        self.connected += 1
        return self, self.list_topics(0)


def scripted(*answers: Any) -> tuple[ScriptedClient, GroupAdmin]:
    client = ScriptedClient(*answers)
    return client, GroupAdmin(cast(ClusterClients, client))


def offsets(offset: int, error: int | None = None) -> Any:
    failure = None if error is None else KafkaError(error)
    one = SimpleNamespace(topic="orders", partition=0, offset=offset, error=failure)
    return SimpleNamespace(topic_partitions=[one])


def test_a_coordinator_that_loads_is_asked_again() -> None:
    client, groups = scripted(LOADING, KafkaError.NOT_COORDINATOR, offsets(7))
    assert groups.committed("g") == {ORDERS: 7}
    assert client.waits == 2


def test_a_commit_is_tried_again_while_the_coordinator_moves() -> None:
    client, groups = scripted(offsets(7, KafkaError.NOT_COORDINATOR), offsets(7))
    groups.commit("g", {ORDERS: 7})
    assert client.waits == 1


def test_a_broker_that_loads_is_asked_again_for_its_groups() -> None:
    loading = SimpleNamespace(valid=[], errors=[KafkaException(KafkaError(LOADING))])
    loaded = SimpleNamespace(valid=[SimpleNamespace(group_id="g")], errors=[])
    client, groups = scripted(loading, loaded)
    assert [group.group_id for group in groups.listed()[0]] == ["g"]
    assert client.waits == 1


@pytest.mark.parametrize(
    ("code", "waits", "message"),
    [
        (LOADING, 39, r"^the offsets of group g: .*\[COORDINATOR_LOAD_IN_PROGRESS\]$"),
        (REFUSED, 0, r"^the offsets of group g: .*\[GROUP_AUTHORIZATION_FAILED\]$"),
    ],
)
def test_a_request_that_stays_refused_is_reported(code: int, waits: int, message: str) -> None:
    client, groups = scripted(code)
    with pytest.raises(CommandFailed, match=message):
        groups.committed("g")
    assert client.waits == waits


def test_a_group_that_got_members_meanwhile_is_not_reset() -> None:
    _, groups = scripted(offsets(7, KafkaError.UNKNOWN_MEMBER_ID))
    with pytest.raises(CommandFailed, match="group g has got members meanwhile"):
        groups.commit("g", {ORDERS: 7})


def test_the_successor_of_a_leader_that_died_is_asked_for_its_offsets() -> None:
    told = SimpleNamespace(offset=7)
    client, groups = scripted(KafkaError._TIMED_OUT, told, told)
    assert groups.latest([ORDERS, Partition("orders", 1)]) == {ORDERS: 7, Partition("orders", 1): 7}
    assert client.waits == 1


def test_after_a_request_that_timed_out_the_next_look_has_a_new_client() -> None:
    client, groups = scripted(KafkaError._TIMED_OUT, REFUSED, offsets(7))
    for connected in (2, 2):
        with pytest.raises(CommandFailed):
            groups.committed("g")
        groups.refresh()
        assert client.connected == connected
    assert groups.committed("g") == {ORDERS: 7}


def test_a_partition_that_is_not_there_has_no_offsets() -> None:
    _, groups = scripted(KafkaError._TIMED_OUT)
    assert groups.latest([Partition("orders", 2), Partition("no-such-topic", 0)]) == {}


def deleted(coordinator: ErrorCode, *codes: ErrorCode) -> list[PartitionOutcome]:
    left = list(codes)
    partition = SimpleNamespace(partition_index=0, error_code=ErrorCode.none)
    topic = SimpleNamespace(name="orders", partitions=(partition,))
    with scripted_cluster(1) as cluster:
        found = SimpleNamespace(
            key="g",
            node_id=0,
            host="127.0.0.1",
            port=cluster.ports[0],
            error_code=coordinator,
            error_message=None,
        )
        cluster.scripts[ApiKey.FIND_COORDINATOR] = lambda *_: SimpleNamespace(coordinators=(found,))
        cluster.scripts[ApiKey.OFFSET_DELETE] = lambda *_: SimpleNamespace(
            error_code=left.pop(0), topics=(topic,)
        )
        return ask_cluster(cluster.bootstrap, lambda client: delete_offsets(client, "g", [ORDERS]))


def test_offsets_are_deleted_once_the_coordinator_is_ready() -> None:
    loading, none = ErrorCode.coordinator_load_in_progress, ErrorCode.none
    ((partition, code, _),) = deleted(none, loading, none)
    assert (partition, code) == (ORDERS, none)


def test_a_group_that_is_refused_as_a_whole_is_one_line() -> None:
    with pytest.raises(CommandFailed, match=r"^group g: group id not found \[GROUP_ID_NOT_FOUND\]"):
        deleted(ErrorCode.none, ErrorCode.group_id_not_found)
    with pytest.raises(CommandFailed, match=r"\[GROUP_AUTHORIZATION_FAILED\]$"):
        deleted(ErrorCode.group_authorization_failed)
