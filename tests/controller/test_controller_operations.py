"""The controller's long operations, and the requests of clients and brokers."""

import asyncio
import logging
from unittest.mock import patch

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller import events
from barnabas.controller.context import PartitionLeadership
from barnabas.controller.handle import on_brokers
from barnabas.controller.handle.active_controller import ControllerSettings
from barnabas.controller.states import Selector
from barnabas.wire.apis import ApiKey
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import Operation, SetData
from tests.controller.cluster import Cluster, scenario

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Warnings(logging.Handler):
    """Records log messages."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


async def mark_deleted(cluster: Cluster, topic: str) -> None:
    await cluster.admin.create(paths.delete_topic_path(topic))


async def is_gone(cluster: Cluster, topic: str) -> bool:
    return not (
        await cluster.exists(paths.topic_path(topic))
        or await cluster.exists(paths.delete_topic_path(topic))
    )


# -- deletion ------------------------------------------------------------------


@scenario
async def test_a_deleted_topic_is_gone_from_brokers_and_tree(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0, 1), (1, 0))
    await cluster.admin.create(paths.config_path(paths.topic_entity("t")), layout.encode_config({}))
    await mark_deleted(cluster, "t")
    await cluster.until(lambda: is_gone(cluster, "t"))
    await cluster.quiet()
    assert not await cluster.exists(paths.config_path(paths.topic_entity("t")))
    for node in cluster.nodes.values():
        assert set(node.broker.deleted()) == {T0, T1}
        assert node.broker.metadata()[T0].leader == -2
    assert cluster.controller.describe()["counts"]["topics"] == 0


@scenario
async def test_a_deletion_waits_for_a_broker_that_is_down(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0, 1))
    await cluster.nodes[1].unregister()
    await cluster.quiet()
    await mark_deleted(cluster, "t")
    await cluster.quiet()
    assert cluster.nodes[0].broker.deleted() == [T0]
    assert not await is_gone(cluster, "t")
    await cluster.nodes[1].register()
    await cluster.until(lambda: is_gone(cluster, "t"))
    assert T0 in cluster.nodes[1].broker.deleted()


@scenario
async def test_a_deletion_that_a_broker_refuses_is_retried_when_it_restarts(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0, 1))
    cluster.nodes[1].broker.refuses_deletion = {T0}
    await mark_deleted(cluster, "t")
    await cluster.quiet()
    assert not await is_gone(cluster, "t")
    cluster.nodes[1].broker.refuses_deletion = set()
    await cluster.nodes[1].unregister()
    await cluster.nodes[1].register()
    await cluster.until(lambda: is_gone(cluster, "t"))


@scenario
async def test_marks_of_unknown_topics_and_of_disabled_deletions_are_removed(
    cluster: Cluster,
) -> None:
    await cluster.start(0)
    await cluster.create_topic("t", (0,))
    await mark_deleted(cluster, "unknown")
    await cluster.until(lambda: is_gone(cluster, "unknown"))
    cluster.nodes[0].settings = ControllerSettings(delete_topic_enabled=False)
    await mark_deleted(cluster, "t")
    await cluster.quiet()
    assert not await cluster.exists(paths.delete_topic_path("t"))
    assert (await cluster.state("t")).leader == 0


@scenario
async def test_partitions_added_to_a_topic_under_deletion_are_removed_again(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0, 1))
    await cluster.nodes[1].unregister()
    await mark_deleted(cluster, "t")
    await cluster.quiet()
    topic_id = (await cluster.topic("t")).topic_id
    await cluster.write_topic("t", (0, 1), (0,), topic_id=topic_id)
    await cluster.quiet()
    assert list((await cluster.topic("t")).partitions) == [0]


@scenario
async def test_a_topic_can_be_created_with_the_name_of_a_deleted_one(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0, 1))
    await cluster.nodes[0].unregister()
    await cluster.nodes[0].register()
    await cluster.quiet()
    await mark_deleted(cluster, "t")
    await cluster.until(lambda: is_gone(cluster, "t"))
    await cluster.create_topic("t", (1, 0))
    state = await cluster.state("t")
    assert (state.leader, state.leader_epoch) == (1, 0)


# -- reassignment --------------------------------------------------------------


async def catch_up(cluster: Cluster, partition: TopicPartition, *isr: int) -> None:
    await cluster.write_isr(partition.topic, partition.partition, *isr)
    await cluster.quiet()


@scenario
async def test_a_reassignment_completes_when_the_new_replicas_have_caught_up(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2, 3)
    await cluster.create_topic("t", (0, 1))
    answers = await cluster.controller.ask(events.AlterReassignments({T0: brokers(2, 3)}))
    assert answers == {T0: None}
    moving = await cluster.topic("t")
    assert (moving.partitions[0], moving.adding[0], moving.removing[0]) == (
        (2, 3, 0, 1),
        (2, 3),
        (0, 1),
    )
    listed = await cluster.controller.ask(events.ListReassignments(None))
    assert listed[T0].adding == (2, 3)
    await cluster.quiet()
    assert cluster.nodes[2].broker.leaders()[T0].is_new
    await catch_up(cluster, T0, 0, 1, 2)
    assert (await cluster.topic("t")).adding
    await catch_up(cluster, T0, 0, 1, 2, 3)
    moved = await cluster.topic("t")
    assert (moved.partitions, moved.adding, moved.removing) == ({0: (2, 3)}, {}, {})
    state = await cluster.state("t")
    assert (state.leader, state.isr) == (2, (2, 3))
    assert cluster.nodes[0].broker.deleted() == [T0]
    assert cluster.nodes[1].broker.deleted() == [T0]
    assert await cluster.controller.ask(events.ListReassignments((T0,))) == {}


@scenario
async def test_a_reassignment_completes_without_an_isr_notification(cluster: Cluster) -> None:
    """The watch on `state` fires; leaders send the notification only seconds later."""
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0,))
    await cluster.controller.ask(events.AlterReassignments({T0: brokers(1)}))
    path = paths.partition_state_path(T0)
    data, stat = await cluster.admin.get(path)
    await cluster.admin.set(path, data.replace(b'"isr":[0]', b'"isr":[0,1]'), stat.version)
    await cluster.quiet()
    assert (await cluster.topic("t")).partitions == {0: (1,)}


@scenario
async def test_partitions_that_caught_up_together_complete_together(cluster: Cluster) -> None:
    """So the topic's znode is not written again for each of its partitions."""
    count = 20
    await cluster.start(0, 1)
    await cluster.create_topic("t", *[(0,)] * count)
    moving = [TopicPartition("t", n) for n in range(count)]
    await cluster.controller.ask(events.AlterReassignments(dict.fromkeys(moving, brokers(1))))
    _, before = await cluster.admin.get(paths.topic_path("t"))
    writes: list[Operation] = []
    for each in moving:
        path = paths.partition_state_path(each)
        data, stat = await cluster.admin.get(path)
        writes.append(SetData(path, data.replace(b'"isr":[0]', b'"isr":[0,1]'), stat.version))
    await cluster.admin.multi(writes)
    await cluster.quiet()
    assert (await cluster.topic("t")).partitions == dict.fromkeys(range(count), (1,))
    _, after = await cluster.admin.get(paths.topic_path("t"))
    assert after.version - before.version == 1


@scenario
async def test_partitions_are_reassigned_by_the_znode_which_is_deleted_with_the_last_one(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (0,), (1,))
    await cluster.admin.create(
        paths.REASSIGN_PARTITIONS,
        layout.encode_reassignment(
            {T0: brokers(2), T1: brokers(2), TopicPartition("unknown", 0): brokers(1)}
        ),
    )
    await cluster.quiet()
    data, _ = await cluster.admin.get(paths.REASSIGN_PARTITIONS)
    assert list(layout.decode_reassignment(data)) == [T0, T1]
    epoch = (await cluster.state("t", 1)).leader_epoch
    await catch_up(cluster, T0, 0, 2)
    data, _ = await cluster.admin.get(paths.REASSIGN_PARTITIONS)
    assert list(layout.decode_reassignment(data)) == [T1]
    assert (await cluster.state("t", 1)).leader_epoch == epoch
    await catch_up(cluster, T1, 1, 2)
    assert not await cluster.exists(paths.REASSIGN_PARTITIONS)
    assert (await cluster.topic("t")).partitions == {0: (2,), 1: (2,)}
    await cluster.admin.create(
        paths.REASSIGN_PARTITIONS, layout.encode_reassignment({T0: brokers(0)})
    )
    await cluster.quiet()
    assert (await cluster.topic("t")).adding == {0: (0,)}


@scenario
async def test_a_cancelled_reassignment_leaves_the_partition_as_it_was(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (0, 1))
    await cluster.controller.ask(events.AlterReassignments({T0: brokers(1, 2)}))
    answers = await cluster.controller.ask(events.AlterReassignments({T0: None, T1: None}))
    assert answers[T0] is None
    refusal = answers[T1]
    assert refusal is not None
    assert refusal.code is ErrorCode.unknown_topic_or_partition
    await cluster.quiet()
    topic = await cluster.topic("t")
    assert (set(topic.partitions[0]), topic.adding, topic.removing) == ({0, 1}, {}, {})
    assert cluster.nodes[2].broker.deleted() == [T0]
    again = (await cluster.controller.ask(events.AlterReassignments({T0: None})))[T0]
    assert again is not None
    assert again.code is ErrorCode.no_reassignment_in_progress


@scenario
async def test_a_topic_under_reassignment_is_deleted_when_that_completes(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0,))
    await cluster.controller.ask(events.AlterReassignments({T0: brokers(1)}))
    await mark_deleted(cluster, "t")
    await cluster.quiet()
    assert not await is_gone(cluster, "t")
    await cluster.write_isr("t", 0, 0, 1)
    await cluster.until(lambda: is_gone(cluster, "t"))


# -- elections -----------------------------------------------------------------


async def stray(cluster: Cluster) -> None:
    """Restart broker 1 and let it catch up: others now lead its partitions."""
    await cluster.nodes[1].unregister()
    await cluster.quiet()
    await cluster.nodes[1].register()
    await cluster.quiet()
    path = paths.partition_state_path(T0)
    data, stat = await cluster.admin.get(path)
    await cluster.admin.set(path, data.replace(b'"isr":[2]', b'"isr":[2,1]'), stat.version)


@scenario
async def test_a_preferred_leader_is_elected_by_request_on_the_newest_isr(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    await stray(cluster)
    ask = events.ElectLeaders((T0, T1), Selector.PREFERRED)
    answers = await cluster.controller.ask(ask)
    assert answers[T0] is None
    refusal = answers[T1]
    assert refusal is not None
    assert refusal.code is ErrorCode.unknown_topic_or_partition
    assert (await cluster.state("t")).leader == 1
    again = (await cluster.controller.ask(ask))[T0]
    assert again is not None
    assert again.code is ErrorCode.election_not_needed


@scenario
async def test_a_preferred_leader_is_elected_by_the_znode_which_is_deleted(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    await stray(cluster)
    for _ in range(2):
        await cluster.admin.create(paths.PREFERRED_REPLICA_ELECTION, layout.encode_partitions([T0]))
        await cluster.quiet()
        assert not await cluster.exists(paths.PREFERRED_REPLICA_ELECTION)
        assert (await cluster.state("t")).leader == 1


@scenario
async def test_preferred_leaders_are_elected_on_schedule(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    await stray(cluster)
    await asyncio.sleep(600)
    assert (await cluster.state("t")).leader == 2
    cluster.nodes[0].settings = ControllerSettings(imbalance_check_interval_s=20)
    await asyncio.sleep(300)
    assert (await cluster.state("t")).leader == 1


@scenario
async def test_an_unclean_election_happens_only_when_allowed_and_warns(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    await cluster.write_isr("t", 0, 1)
    await cluster.quiet()
    await cluster.nodes[1].unregister()
    await cluster.quiet()
    assert (await cluster.state("t")).leader == -1
    await cluster.admin.create(
        paths.config_path(paths.topic_entity("t")),
        layout.encode_config({"unclean.leader.election.enable": "true"}),
    )
    warnings = Warnings()
    logging.getLogger("barnabas.controller").addHandler(warnings)
    try:
        cluster.controller.put(events.UncleanAllowed("t"))
        await cluster.quiet()
    finally:
        logging.getLogger("barnabas.controller").removeHandler(warnings)
    state = await cluster.state("t")
    assert (state.leader, state.isr) == (2, (2,))
    assert any("unclean election" in each and "t-0" in each for each in warnings.said)
    assert cluster.controller.unclean_elections == 1


# -- brokers that shut down, fail, and send requests ----------------------------


@scenario
async def test_a_controlled_shutdown_moves_the_leaders_away(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2), (1,))
    epoch = cluster.controller.describe()["brokers"]["1"]["epoch"]
    ask = events.ControlledShutdown(BrokerId(1), epoch)
    assert await cluster.controller.ask(ask) == []
    state = await cluster.state("t", 0)
    assert (state.leader, state.isr) == (2, (2,))
    assert (await cluster.state("t", 1)).leader == 1
    assert cluster.controller.describe()["brokers"]["1"]["state"] == "shutting down"
    with pytest.raises(BrokerError) as stale:
        await cluster.controller.ask(events.ControlledShutdown(BrokerId(1), epoch - 1))
    assert stale.value.code is ErrorCode.stale_broker_epoch
    with pytest.raises(BrokerError) as unknown:
        await cluster.controller.ask(events.ControlledShutdown(BrokerId(9), epoch))
    assert unknown.value.code is ErrorCode.broker_not_available


@scenario
async def test_replicas_of_a_failed_log_directory_lose_their_leadership(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2), (1, 2))
    cluster.nodes[1].broker.failed = {T0}
    await cluster.admin.create(
        paths.LOG_DIR_EVENT, layout.encode_log_dir_event(BrokerId(1)), sequential=True
    )
    await cluster.quiet()
    assert (await cluster.state("t", 0)).leader == 2
    assert (await cluster.state("t", 1)).leader == 1
    assert await cluster.admin.children(paths.LOG_DIR_EVENT_NOTIFICATION) == []
    assert cluster.nodes[2].broker.metadata()[T0].offline_replicas == (1,)


@scenario
async def test_changed_isrs_reach_every_broker_and_their_notifications_are_deleted(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    await cluster.write_isr("t", 0, 1)
    await cluster.quiet()
    for node in cluster.nodes.values():
        assert node.broker.metadata()[T0].isr == (1,)
    assert await cluster.admin.children(paths.ISR_CHANGE_NOTIFICATION) == []


@scenario
async def test_leaders_change_their_isr_by_alter_partition(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    epoch = cluster.controller.describe()["brokers"]["1"]["epoch"]

    async def alter(
        leader_epoch: int, version: int, *isr: int, recovering: bool = False
    ) -> ErrorCode | PartitionLeadership:
        wish = {T0: events.RequestedIsr(leader_epoch, version, brokers(*isr), recovering)}
        ask = events.AlterPartition(BrokerId(1), epoch, wish)
        return (await cluster.controller.ask(ask))[T0]

    granted = await alter(0, 0, 1)
    assert isinstance(granted, PartitionLeadership)
    assert (granted.state.isr, granted.version) == ((1,), 1)
    assert (await cluster.state("t")).isr == (1,)
    assert await alter(0, 0, 1) == granted
    assert await alter(0, 0, 1, 2) is ErrorCode.invalid_update_version
    assert await alter(0, 1, 1, 9) is ErrorCode.ineligible_replica
    assert await alter(1, 1, 1, 2) is ErrorCode.not_controller
    assert await alter(0, 2, 1, 2) is ErrorCode.not_controller
    assert await alter(0, 1) is ErrorCode.invalid_request
    assert await alter(0, 1, 1, recovering=True) is ErrorCode.invalid_request
    assert await alter(-1, 1, 1, 2) is ErrorCode.fenced_leader_epoch
    with pytest.raises(BrokerError) as stale:
        await cluster.controller.ask(events.AlterPartition(BrokerId(1), epoch - 1, {}))
    assert stale.value.code is ErrorCode.stale_broker_epoch


@scenario
async def test_a_leader_by_unclean_election_recovers_by_alter_partition(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    epoch = cluster.controller.describe()["brokers"]["1"]["epoch"]
    await cluster.write_isr("t", 0, 1, recovering=True)
    await cluster.quiet()

    async def alter(recovering: bool) -> ErrorCode | PartitionLeadership:
        wish = {T0: events.RequestedIsr(0, 1, brokers(1, 2), recovering)}
        return (await cluster.controller.ask(events.AlterPartition(BrokerId(1), epoch, wish)))[T0]

    assert await alter(recovering=True) is ErrorCode.invalid_request
    assert isinstance(await alter(recovering=False), PartitionLeadership)
    state = await cluster.state("t")
    assert (state.isr, state.recovering) == ((1, 2), False)


@scenario
async def test_a_hung_broker_delays_no_other(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    cluster.nodes[1].broker.hung = True
    await cluster.write_topic("t", (2, 1), topic_id=None)
    await cluster.until(lambda: T0 in cluster.nodes[2].broker.leaders())
    said = cluster.controller.describe()["brokers"]["1"]["channel"]
    assert said["in_flight"] == 1
    assert said["queue"] >= 1
    cluster.nodes[1].broker.hung = False
    await cluster.until(lambda: T0 in cluster.nodes[1].broker.leaders())
    assert cluster.nodes[1].broker.messages(ApiKey.UPDATE_METADATA)


@scenario
async def test_one_warning_is_logged_for_replicas_that_failed_and_none_for_the_rest(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (1, 0), (1, 0), (0, 1))

    async def warnings_after(code: ErrorCode, failed: set[TopicPartition]) -> list[str]:
        cluster.nodes[1].broker.said, cluster.nodes[1].broker.failed = code, failed
        with patch.object(on_brokers.log, "warning") as warned:
            await cluster.admin.create(
                paths.LOG_DIR_EVENT, layout.encode_log_dir_event(BrokerId(1)), sequential=True
            )
            await cluster.quiet()
        lines = [call.args[0] % call.args[1:] for call in warned.call_args_list]
        return [line for line in lines if line.startswith("replicas failed")]

    # A Kafka broker gives this code where it is in that leader epoch already.
    assert await warnings_after(ErrorCode.stale_controller_epoch, set()) == []
    assert await warnings_after(ErrorCode.inconsistent_topic_id, set()) == [
        "replicas failed broker=1 newly_offline=0 refused=inconsistent_topic_id:3"
    ]
    failed = "replicas failed broker=1 newly_offline=2 refused=none"
    both = {T0, TopicPartition("t", 1)}
    assert await warnings_after(ErrorCode.none, both) == [failed]
    assert await warnings_after(ErrorCode.none, both) == []
