"""Leaders that restarted unseen: they lead on only if no other in-sync replica kept running."""

import asyncio

from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.controller.context import (
    AssignedTopic,
    Assignment,
    Context,
    LiveBroker,
    PartitionLeadership,
    PartitionReplica,
)
from barnabas.controller.handle.failover import _restarted_leaders, _restarted_unseen
from barnabas.znodes.layout import BrokerRegistration, LeaderAndIsr

REGISTERED = 100


def context(written: int, leader: int = 1) -> Context:
    found = Context()
    found.apply_brokers(
        {BrokerId(1): LiveBroker(BrokerId(1), REGISTERED, BrokerRegistration((), timestamp_ms=0))}
    )
    found.apply_topic("t", AssignedTopic(None, {0: Assignment((BrokerId(1), BrokerId(2)))}, 0))
    state = LeaderAndIsr(BrokerId(leader), LeaderEpoch(3), 1, (BrokerId(1),))
    found.apply_leadership(TopicPartition("t", 0), PartitionLeadership(state, 5, written))
    return found


def unseen(found: Context) -> list[PartitionReplica]:
    async def listed() -> list[PartitionReplica]:
        return [each async for each in _restarted_unseen(found)]

    return asyncio.run(listed())


def alone(found: Context) -> list[TopicPartition]:
    async def listed() -> list[TopicPartition]:
        return [each async for each in _restarted_leaders(found, unseen_replicas)]

    unseen_replicas = unseen(found)
    return asyncio.run(listed())


def test_a_leader_that_registered_after_its_state_was_written_gets_a_new_epoch() -> None:
    assert alone(context(written=99)) == [TopicPartition("t", 0)]


def test_a_leader_elected_after_it_registered_keeps_its_epoch() -> None:
    assert alone(context(written=101)) == []


def test_a_dead_leader_is_left_to_the_election() -> None:
    assert alone(context(written=99, leader=2)) == []


def test_a_topic_that_is_being_deleted_is_left_alone() -> None:
    doomed = context(written=99)
    doomed.apply_deleting(["t"])
    assert alone(doomed) == []


def two_in_sync(
    one_registered: int, other_registered: int, other_first: int | None = None
) -> Context:
    found = context(written=200)
    registered = {BrokerId(1): one_registered, BrokerId(2): other_registered}
    found.apply_brokers(
        {
            b: LiveBroker(b, at, BrokerRegistration((), 0, first_epoch=first))
            for (b, at), first in zip(registered.items(), (None, other_first), strict=True)
        }
    )
    both = (BrokerId(1), BrokerId(2))
    state = LeaderAndIsr(BrokerId(1), LeaderEpoch(3), 1, both)
    found.apply_leadership(TopicPartition("t", 0), PartitionLeadership(state, 5, 200))
    return found


def test_a_replica_that_restarted_while_another_in_sync_one_kept_running_is_demoted() -> None:
    for restarted, registered in ((1, (300, 100)), (2, (100, 300))):
        found = two_in_sync(*registered)
        assert unseen(found) == [PartitionReplica(TopicPartition("t", 0), BrokerId(restarted))]
        assert alone(found) == []


def test_if_the_whole_isr_restarted_the_leader_leads_on_in_a_new_epoch() -> None:
    found = two_in_sync(300, 301)
    assert unseen(found) == []
    assert alone(found) == [TopicPartition("t", 0)]


def test_a_replica_whose_session_expired_kept_running() -> None:
    """It registered again, as one that restarted does; but it lost nothing."""
    found = two_in_sync(300, 301, other_first=100)
    assert unseen(found) == [PartitionReplica(TopicPartition("t", 0), BrokerId(1))]
    assert alone(found) == []
