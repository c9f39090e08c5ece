"""The simulated admin client against a real cluster: operations and their outcomes."""

from collections.abc import Awaitable, Callable, Iterator

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.sim.checkers.history import ClientOperation, OperationOutcome
from barnabas.sim.clients.admin_client import Admin
from barnabas.testing import Cluster
from tests.sim.test_client_connections import bootstrap, new_history, run

AT = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


def administer(cluster: Cluster, act: Callable[[Admin], Awaitable[None]]) -> list[ClientOperation]:
    """The history after the admin client's operations."""

    async def scenario() -> list[ClientOperation]:
        history = new_history()
        admin = Admin("admin", bootstrap(cluster), Random(1), history)
        try:
            await act(admin)
        finally:
            admin.close()
        return history.operations

    return run(scenario())


def test_a_topic_is_created_grown_reassigned_and_deleted(cluster: Cluster) -> None:
    async def act(admin: Admin) -> None:
        await admin.create(AT.topic, 1, 2, {"retention.ms": "-1"})
        await admin.grow(AT.topic, 2)
        await admin.elect(AT)
        await admin.reassign(AT, (1,))
        while (await admin.connections.refresh()) and not is_on(admin, (1,)):
            await admin.connections.back_off()
        assert len(admin.connections.topics[AT.topic]) == 2
        await admin.delete(AT.topic)

    operations = administer(cluster, act)
    assert [(each.outcome, each.why) for each in operations] == [(OperationOutcome.OK, "")] * 5


def is_on(admin: Admin, brokers: tuple[int, ...]) -> bool:
    return admin.connections.topics[AT.topic][AT.partition].replicas == brokers


def test_a_rejected_operation_has_failed(cluster: Cluster) -> None:
    async def act(admin: Admin) -> None:
        await admin.delete("unknown")
        await admin.grow("unknown", 2)
        await admin.elect(TopicPartition("unknown", 0))
        await admin.reassign(TopicPartition("unknown", 0), (1,))
        await admin.create("large", 1, 9)

    operations = administer(cluster, act)
    assert {each.outcome for each in operations} == {OperationOutcome.FAILED}
    assert operations[-1].why == "invalid_replication_factor"


def test_the_outcome_of_a_request_to_a_past_controller_is_unknown(cluster: Cluster) -> None:
    cluster.fail_next("create_topics", "not_controller")

    async def act(admin: Admin) -> None:
        await admin.create("late", 1, 1)

    (operation,) = administer(cluster, act)
    assert (operation.outcome, operation.why) == (OperationOutcome.UNKNOWN, "not_controller")
