"""Controller failover: a new controller reads the tree, repairs it and resumes operations.

The long operations are interrupted before and after every transaction: the controller loses its
session there, and the next one has to finish the operation.
"""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from barnabas.base.errors import BrokerError
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller import events
from barnabas.controller.states import PartitionState
from barnabas.wire.apis import ApiKey
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import CreateNode, DeleteNode, Operation
from tests.controller.cluster import Cluster, scenario
from tests.controller.contexts import brokers
from tests.controller.gated import Gate, GatedSession

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
# More transactions than any operation below; a test ends when none was interrupted.
MANY = 60


@scenario
async def test_brokers_get_the_live_brokers_before_the_leaders(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (1, 0))
    heard = len(cluster.nodes[1].broker.heard)
    await cluster.nodes[0].expire()
    await cluster.until(lambda: cluster.nodes[1].controller.is_active)
    await cluster.quiet()
    keys = [request.key for request in cluster.nodes[1].broker.heard[heard:]]
    assert keys[0] is ApiKey.UPDATE_METADATA
    assert ApiKey.LEADER_AND_ISR in keys
    assert {each.controller_epoch for each in cluster.nodes[1].broker.messages(keys[0])[-2:]} == {2}


@scenario
async def test_partitions_led_by_the_dead_controllers_broker_get_new_leaders(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (0, 1), (0,))
    await cluster.nodes[0].expire()
    await cluster.until(lambda: cluster.active is not None)
    await cluster.quiet()
    state = await cluster.state("t", 0)
    assert (state.leader, state.isr) == (1, (1,))
    assert (await cluster.state("t", 1)).leader == -1
    said = cluster.controller.describe(full=True)
    assert said["partitions"]["t-1"]["state"] == PartitionState.OFFLINE.value


@scenario
async def test_a_leader_that_restarted_unseen_is_replaced_by_an_in_sync_replica_that_kept_running(
    cluster: Cluster,
) -> None:
    """It was also the controller: the next one sees only its new registration."""
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (0, 1), (0,))
    before = await cluster.state("t", 0)
    assert (before.leader, before.isr) == (0, (0, 1))
    own = paths.broker_path(BrokerId(0))
    registered, _ = await cluster.admin.get(own)
    again = (
        DeleteNode(paths.CONTROLLER),
        DeleteNode(own),
        CreateNode(own, registered, ephemeral=True),
    )
    await cluster.nodes[0].session.multi(again)
    await cluster.until(lambda: cluster.active is not None)
    await cluster.quiet()
    state = await cluster.state("t", 0)
    assert (state.leader, state.isr) == (1, (1,))
    assert cluster.nodes[0].broker.leaders()[T0].leader == 1
    # The other partition has no other replica: it leads on, in a new leader epoch.
    alone = await cluster.state("t", 1)
    assert alone.leader == 0
    assert alone.leader_epoch > 0


@scenario
async def test_a_topic_created_without_a_controller_gets_its_leaders(cluster: Cluster) -> None:
    """Its znode was written while there was no controller."""
    await cluster.start(0, 1)
    await cluster.nodes[1].controller.stop()
    await cluster.nodes[0].expire()
    await cluster.write_topic("t", (1,), topic_id=None)
    # The node of one partition exists already: a controller stopped half way.
    await cluster.admin.create(paths.partition_path(T0), make_parents=True)
    await cluster.nodes[0].come_back()
    await cluster.until(lambda: cluster.active is not None)
    await cluster.quiet()
    assert (await cluster.state("t")).leader == 1


@scenario
async def test_notifications_for_the_former_controller_are_deleted(cluster: Cluster) -> None:
    await cluster.start(0)
    await cluster.create_topic("t", (0,))
    await cluster.nodes[0].expire()
    await cluster.admin.create(paths.ISR_CHANGE, layout.encode_partitions([T0]), sequential=True)
    await cluster.admin.create(
        paths.LOG_DIR_EVENT, layout.encode_log_dir_event(BrokerId(0)), sequential=True
    )
    await cluster.nodes[0].come_back()
    await cluster.until(lambda: cluster.active is not None)
    await cluster.quiet()
    assert await cluster.admin.children(paths.ISR_CHANGE_NOTIFICATION) == []
    assert await cluster.admin.children(paths.LOG_DIR_EVENT_NOTIFICATION) == []


@scenario
async def test_a_malformed_znode_does_not_prevent_a_failover(
    cluster: Cluster,
) -> None:
    await cluster.start()
    await cluster.admin.create(paths.topic_path("bad"), b"not JSON")
    await (await cluster.node(0)).start()
    await cluster.until(lambda: cluster.active is not None)
    await cluster.create_topic("t", (0,))
    assert (await cluster.state("t")).leader == 0
    await cluster.admin.delete(paths.topic_path("bad"))


# -- interrupted at every transaction --------------------------------------------


class Interruption:
    """Ends the controller's session at its n-th transaction from now on."""

    def __init__(self, session: GatedSession, number: int) -> None:
        self._session = session
        self._number = number
        self.happened = False

    async def gate(self, operations: Sequence[Operation]) -> None:
        self._number -= 1
        if self._number == 0:
            self.happened = True
            await self._session.expire()


Operate = Callable[[Cluster], Awaitable[None]]
Finished = Callable[[Cluster], Awaitable[bool]]


def interrupted(operate: Operate, finished: Finished, gate_name: str) -> None:
    for number in range(1, MANY):
        happened: list[bool] = []

        @scenario
        async def play(
            cluster: Cluster, number: int = number, happened: list[bool] = happened
        ) -> None:
            session = GatedSession(cluster.tree)
            await cluster.start()
            await (await cluster.node(0, session)).start()
            await cluster.until(lambda: cluster.active is not None)
            for broker_id in (1, 2, 3):
                await (await cluster.node(broker_id)).start()
            await cluster.quiet()
            await cluster.create_topic("t", (1, 2), (2, 1))
            interruption = Interruption(session, number)
            gate: Gate = interruption.gate
            setattr(session, gate_name, gate)
            await operate(cluster)
            await cluster.until(lambda: finished(cluster))
            await cluster.until(lambda: cluster.active is not None)
            happened.append(interruption.happened)

        play()
        if not happened[0]:
            assert number > 2, "nothing was interrupted"
            return
    pytest.fail(f"more than {MANY} transactions")


async def delete(cluster: Cluster) -> None:
    await cluster.admin.create(paths.delete_topic_path("t"))


async def deleted(cluster: Cluster) -> bool:
    return not (
        await cluster.exists(paths.delete_topic_path("t"))
        or await cluster.exists(paths.topic_path("t"))
    )


async def move(cluster: Cluster) -> None:
    """Request a reassignment, and add the new replica to the ISR as its leader does."""
    targets = {T0: brokers(3, 1), T1: brokers(3)}
    await cluster.admin.create(paths.REASSIGN_PARTITIONS, layout.encode_reassignment(targets))


async def moved(cluster: Cluster) -> bool:
    topic = await cluster.topic("t")
    for index, replicas in topic.partitions.items():
        state = await cluster.state("t", index)
        if 3 in replicas and 3 not in state.isr and TopicPartition("t", index) in led_by_3(cluster):
            await cluster.write_isr("t", index, *state.isr, 3)
    return (topic.partitions, topic.adding, topic.removing) == (
        {0: (3, 1), 1: (3,)},
        {},
        {},
    ) and not await cluster.exists(paths.REASSIGN_PARTITIONS)


def led_by_3(cluster: Cluster) -> dict[TopicPartition, object]:
    return cluster.nodes[3].broker.leaders()


async def create(cluster: Cluster) -> None:
    await cluster.write_topic("new", (1, 2), (3,), topic_id=None)


async def created(cluster: Cluster) -> bool:
    metadata = cluster.nodes[1].broker.metadata()
    return all(TopicPartition("new", n) in metadata for n in (0, 1))


async def lose_broker(cluster: Cluster) -> None:
    await cluster.nodes[1].unregister()


async def led_by_others(cluster: Cluster) -> bool:
    states = [await cluster.state("t", n) for n in (0, 1)]
    return all((state.leader, state.isr) == (2, (2,)) for state in states)


OPERATIONS = {
    "create": (create, created),
    "delete": (delete, deleted),
    "move": (move, moved),
    "lose a broker": (lose_broker, led_by_others),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("gate", ["before", "after"])
def test_the_next_controller_finishes_what_was_interrupted(operation: str, gate: str) -> None:
    interrupted(*OPERATIONS[operation], gate)


@scenario
async def test_a_reassignment_can_be_cancelled_by_the_next_controller(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2, 3)
    await cluster.create_topic("t", (1, 2))
    await cluster.controller.ask(events.AlterReassignments({T0: brokers(3)}))
    await cluster.nodes[0].expire()
    with pytest.raises(BrokerError):
        await cluster.nodes[0].controller.ask(events.ListReassignments(None))
    await cluster.until(lambda: cluster.active is not None)
    await cluster.quiet()
    assert await cluster.controller.ask(events.AlterReassignments({T0: None})) == {T0: None}
    await cluster.quiet()
    topic = await cluster.topic("t")
    assert (set(topic.partitions[0]), topic.adding) == ({1, 2}, {})
