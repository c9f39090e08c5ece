"""Brokers as a running controller sees them: they shut down, fail, hang, and send requests."""

from unittest.mock import patch

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller import events
from barnabas.controller.context import PartitionLeadership
from barnabas.controller.handle import on_brokers
from barnabas.wire.apis import ApiKey
from barnabas.znodes import layout, paths
from tests.controller.cluster import Cluster, scenario
from tests.controller.contexts import brokers

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


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
