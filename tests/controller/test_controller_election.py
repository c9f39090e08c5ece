"""The controller election: one controller at a time, each with a higher epoch, despite faults."""

import asyncio
from collections.abc import Sequence

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.controller import events
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import Operation
from tests.controller.cluster import Cluster, scenario
from tests.controller.gated import GatedSession, lose, once, touches


async def holder(cluster: Cluster) -> tuple[int, int]:
    """The broker in /controller, and the epoch."""
    data, _ = await cluster.admin.get(paths.CONTROLLER)
    epoch, _ = await cluster.admin.get(paths.CONTROLLER_EPOCH)
    return layout.decode_controller(data).broker_id, layout.decode_controller_epoch(epoch)


@scenario
async def test_of_several_candidates_one_is_elected(cluster: Cluster) -> None:
    await cluster.start()
    for broker_id in range(3):
        await (await cluster.node(broker_id)).register()
    for node in cluster.nodes.values():
        node.controller.start()
    await cluster.until(lambda: cluster.active is not None)
    await cluster.quiet()
    assert await holder(cluster) == (cluster.controller.describe()["broker"], 1)
    assert sum(node.controller.is_active for node in cluster.nodes.values()) == 1


@scenario
async def test_the_next_controller_has_a_higher_epoch(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    for expected in (2, 3, 4):
        gone = cluster.nodes[cluster.controller.describe()["broker"]]
        await gone.expire()
        await cluster.until(lambda: cluster.active is not None)
        await cluster.quiet()
        assert (await holder(cluster))[1] == cluster.controller.epoch == expected
        await gone.come_back()
        await cluster.quiet()


@scenario
async def test_an_election_whose_response_was_lost_is_recognized_as_won(cluster: Cluster) -> None:
    session = GatedSession(cluster.tree)
    session.after = once(lose)
    await cluster.start()
    await (await cluster.node(0, session)).start()
    await cluster.until(lambda: cluster.active is not None)
    assert await holder(cluster) == (0, 1)
    assert cluster.controller.epoch == 1


@scenario
async def test_an_election_whose_request_was_lost_is_repeated(cluster: Cluster) -> None:
    session = GatedSession(cluster.tree)
    session.before = once(lose)
    await cluster.start()
    await (await cluster.node(0, session)).start()
    await cluster.until(lambda: cluster.active is not None)
    assert await holder(cluster) == (0, 1)


@scenario
async def test_an_election_is_lost_if_another_raised_the_epoch_meanwhile(
    cluster: Cluster,
) -> None:
    session = GatedSession(cluster.tree)

    async def another_comes(operations: Sequence[Operation]) -> None:
        await (await cluster.node(1)).start()
        await cluster.until(lambda: cluster.nodes[1].controller.is_active)

    session.before = once(another_comes)
    await cluster.start()
    await (await cluster.node(0, session)).start()
    await cluster.quiet()
    assert await holder(cluster) == (1, 1)
    assert not cluster.nodes[0].controller.is_active


@scenario
async def test_deleting_the_controller_node_by_hand_causes_a_new_election(cluster: Cluster) -> None:
    await cluster.start(0)
    await cluster.create_topic("t", (0,))
    await cluster.admin.delete(paths.CONTROLLER)
    await cluster.until(lambda: cluster.controller.epoch == 2)
    await cluster.quiet()
    assert await holder(cluster) == (0, 2)


@scenario
async def test_an_old_controller_is_fenced_in_the_middle_of_a_write(cluster: Cluster) -> None:
    session = GatedSession(cluster.tree)
    await cluster.start()
    await (await cluster.node(0, session)).start()
    await cluster.until(lambda: cluster.active is not None)
    await (await cluster.node(1)).start()
    await cluster.quiet()
    state = paths.partition_state_path(TopicPartition("t", 0))

    async def another_is_elected(operations: Sequence[Operation]) -> None:
        # As after a pause of the process: its session has expired, and it does not know.
        await cluster.admin.delete(paths.CONTROLLER)
        await cluster.until(lambda: cluster.nodes[1].controller.is_active)
        await cluster.until(lambda: cluster.exists(state))

    # The paused controller does not see that /controller is gone, and does not stand again.
    session.before = once(another_is_elected, touches(state))
    await cluster.write_topic("t", (1, 0), topic_id=None)
    await cluster.until(lambda: cluster.exists(state))
    await cluster.until(lambda: not cluster.nodes[0].controller.is_active)
    assert (await cluster.state("t")).controller_epoch == 2
    said = cluster.nodes[0].controller.describe()["events"]
    assert "controller moved" in [each["outcome"] for each in said]
    await cluster.quiet()
    assert await holder(cluster) == (1, 2)


@scenario
async def test_session_expiry_during_an_event_fails_all_pending_requests(cluster: Cluster) -> None:
    session = GatedSession(cluster.tree)
    await cluster.start()
    node = await cluster.node(0, session)
    await node.start()
    await cluster.until(lambda: cluster.active is not None)
    await cluster.quiet()
    reached, advance_reassignments = asyncio.Event(), asyncio.Event()

    async def stop(operations: Sequence[Operation]) -> None:
        reached.set()
        await advance_reassignments.wait()

    session.before = once(stop)
    await cluster.write_topic("t", (0,), topic_id=None)
    await reached.wait()
    asked = [
        asyncio.ensure_future(node.controller.ask(events.ListReassignments(None))) for _ in "ab"
    ]
    await asyncio.sleep(0)
    assert node.controller.describe()["queue"]["length"] >= 2
    await node.expire()
    assert not node.controller.is_active
    advance_reassignments.set()
    for each in asked:
        with pytest.raises(BrokerError) as refused:
            await each
        assert refused.value.code is ErrorCode.not_controller
    with pytest.raises(BrokerError):
        await node.controller.ask(events.ListReassignments(None))
    await node.come_back()
    await cluster.until(lambda: node.controller.is_active)
    await cluster.quiet()
    assert node.controller.epoch == 2
    assert (await cluster.state("t")).leader == 0


@scenario
async def test_a_write_waits_for_a_lost_connection_and_is_made_once(cluster: Cluster) -> None:
    session = GatedSession(cluster.tree)
    await cluster.start()
    await (await cluster.node(0, session)).start()
    await cluster.until(lambda: cluster.active is not None)
    await cluster.quiet()
    state = paths.partition_state_path(TopicPartition("t", 0))

    async def cut(operations: Sequence[Operation]) -> None:
        session.suspend()
        asyncio.get_running_loop().call_later(10, session.reconnect)
        await lose(operations)

    session.after = once(cut, touches(state))
    began = asyncio.get_running_loop().time()
    await cluster.create_topic("t", (0,))
    await cluster.until(lambda: not cluster.controller.describe()["queue"]["length"])
    await cluster.until(lambda: TopicPartition("t", 0) in cluster.nodes[0].broker.leaders())
    assert asyncio.get_running_loop().time() - began >= 10
    assert cluster.controller.epoch == 1
    assert (await cluster.state("t")).leader == 0


@scenario
async def test_a_bug_in_a_handler_makes_the_controller_resign_and_stand_again(
    cluster: Cluster,
) -> None:
    """A bug in one handler causes a new election, and does not stop the queue."""
    session = GatedSession(cluster.tree)
    await cluster.start()
    await (await cluster.node(0, session)).start()
    await cluster.until(lambda: cluster.active is not None)
    await cluster.quiet()

    async def bug(operations: Sequence[Operation]) -> None:
        raise KeyError("a bug")

    session.before = once(bug)
    await cluster.write_topic("t", (0,), topic_id=None)
    await cluster.until(lambda: cluster.nodes[0].controller.epoch == 2)
    await cluster.quiet()
    assert (await cluster.state("t")).leader == 0


@scenario
async def test_a_broker_that_knows_a_newer_controller_makes_the_old_one_check(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1)
    cluster.nodes[1].broker.error = ErrorCode.stale_controller_epoch
    await cluster.create_topic("t", (1,))
    said = cluster.controller.describe()["events"]
    assert [each["event"] for each in said].count("ControllerChanged") >= 1
    assert cluster.controller.epoch == 1
