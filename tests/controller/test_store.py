"""The controller's store: writes fenced by its epoch, in batches, with the result of each."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.controller.context import PartitionLeadership
from barnabas.controller.io.store import ControllerMoved, Store
from barnabas.controller.io.tree_session import TreeConnection
from barnabas.znodes import paths
from barnabas.znodes.embedded.embedded_tree import EmbeddedSession, Tree
from barnabas.znodes.layout import LeaderAndIsr, TopicAssignment, decode_topic, encode_topic
from barnabas.znodes.tree import ConnectionLoss, CreateNode, NoNode, Operation, SessionExpired
from tests.controller.gated import GatedSession, lose, once

T = [TopicPartition("t", n) for n in range(250)]


def state(leader: int, epoch: int = 0) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), LeaderEpoch(epoch), 1, (BrokerId(leader),))


def on_a_tree(scenario: Callable[[Store, GatedSession, EmbeddedSession], Awaitable[None]]) -> None:
    async def run() -> None:
        tree = Tree()
        session, admin = GatedSession(tree), tree.session()
        await admin.create(paths.CONTROLLER_EPOCH, b"1")
        await admin.create(paths.topic_path("t"), b"{}", make_parents=True)
        store = Store(TreeConnection(session).session(), 0)
        await scenario(store, session, admin)

    asyncio.run(run())


def test_states_are_created_and_written_in_batches() -> None:
    async def scenario(store: Store, session: GatedSession, admin: EmbeddedSession) -> None:
        made = await store.create_states({each: state(1) for each in T})
        assert made.leadership == {each: PartitionLeadership(state(1), 0) for each in T}
        assert session.transactions < 10
        written = await store.update_states({each: (state(2, 1), 0) for each in T})
        assert written.leadership == {each: PartitionLeadership(state(2, 1), 1) for each in T}
        stat = await admin.exists(paths.partition_state_path(T[7]))
        assert stat is not None
        assert stat.version == 1

    on_a_tree(scenario)


def test_a_state_that_cannot_be_written_does_not_prevent_the_others() -> None:
    async def scenario(store: Store, session: GatedSession, admin: EmbeddedSession) -> None:
        await store.create_states({each: state(1) for each in T[:3]})
        await admin.set(paths.partition_state_path(T[0]), b"{}")
        await admin.delete(paths.partition_state_path(T[1]))
        written = await store.update_states({each: (state(2, 1), 0) for each in T[:3]})
        assert (list(written.leadership), written.stale) == ([T[2]], [T[0]])
        again = await store.create_states({each: state(1) for each in T[:4]})
        assert (list(again.leadership), again.stale) == ([T[1], T[3]], [T[0], T[2]])
        unknown = await store.create_states({TopicPartition("unknown", 0): state(1)})
        assert (unknown.leadership, unknown.stale) == ({}, [])

    on_a_tree(scenario)


def test_a_node_written_by_another_is_neither_replaced_nor_deleted() -> None:
    async def scenario(store: Store, session: GatedSession, admin: EmbeddedSession) -> None:
        await admin.create("/asked", b"for one")
        await admin.set("/asked", b"for two")
        assert not await store.replace("/asked", b"for none", 0)
        assert not await store.replace("/asked", None, 0)
        assert (await admin.get("/asked"))[0] == b"for two"
        assert await store.replace("/asked", b"for one", 1)
        assert await store.replace("/asked", None, 2)
        assert not await store.replace("/asked", None, 2)
        assert await admin.exists("/asked") is None

    on_a_tree(scenario)


def test_nothing_is_written_after_another_controller_was_elected() -> None:
    async def scenario(store: Store, session: GatedSession, admin: EmbeddedSession) -> None:
        await admin.set(paths.CONTROLLER_EPOCH, b"2")
        with pytest.raises(ControllerMoved):
            await store.create_states({T[0]: state(1)})
        with pytest.raises(ControllerMoved):
            await store.write(CreateNode("/mine"))
        assert await admin.exists("/mine") is None
        assert await admin.exists(paths.partitions_path("t")) is None

    on_a_tree(scenario)


def test_work_of_one_session_does_not_continue_in_another() -> None:
    async def scenario(store: Store, session: GatedSession, admin: EmbeddedSession) -> None:
        await session.expire()
        await session.renew()
        with pytest.raises(SessionExpired):
            await store.write(CreateNode("/mine"))
        with pytest.raises(SessionExpired):
            await store.children("/")

    on_a_tree(scenario)


@pytest.mark.parametrize("gate", ["before", "after"])
def test_a_delete_whose_response_was_lost_is_done(gate: str) -> None:
    async def scenario(store: Store, session: GatedSession, admin: EmbeddedSession) -> None:
        await store.create_states({each: state(1) for each in T[:3]})
        setattr(session, gate, once(lose))
        await store.delete_topic("t")
        assert await admin.exists(paths.topic_path("t")) is None

    on_a_tree(scenario)


def test_a_topic_is_deleted_with_the_nodes_added_meanwhile() -> None:
    async def scenario(store: Store, session: GatedSession, admin: EmbeddedSession) -> None:
        await store.create_states({each: state(1) for each in T})

        async def add(operations: Sequence[Operation]) -> None:
            await admin.create(f"{paths.topic_path('t')}/partitions/999/state", make_parents=True)

        session.before = once(add)
        await store.delete_topic("t")
        assert await admin.exists(paths.topic_path("t")) is None

    on_a_tree(scenario)


def test_an_assignment_is_merged_with_partitions_added_meanwhile() -> None:
    async def scenario(store: Store, session: GatedSession, admin: EmbeddedSession) -> None:
        one, two = (BrokerId(1),), (BrokerId(2),)
        await admin.set(paths.topic_path("t"), encode_topic(TopicAssignment({0: one, 1: one})))
        version = await store.write_topic("t", TopicAssignment({0: two}), 0)
        data, stat = await admin.get(paths.topic_path("t"))
        assert decode_topic("t", data).partitions == {0: two, 1: one}
        assert version == stat.version
        with pytest.raises(NoNode):
            await store.write_topic("unknown", TopicAssignment({0: two}), 0)

    on_a_tree(scenario)


def test_a_call_waits_for_a_lost_connection() -> None:
    async def scenario(store: Store, session: GatedSession, admin: EmbeddedSession) -> None:
        session.suspend()
        calls = 0

        async def broken() -> str:
            nonlocal calls
            calls += 1
            if calls == 1:
                asyncio.get_running_loop().call_later(0.2, session.reconnect)
                raise ConnectionLoss("/")
            return "done"

        assert await store.call(broken) == "done"
        assert calls == 2

    on_a_tree(scenario)
