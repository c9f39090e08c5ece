"""Controller contexts for tests of deciders: small ones, and hypothesis strategies."""

import uuid
from collections.abc import Iterable, Mapping

from hypothesis import strategies as st

from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.controller.context import (
    NO_LEADER,
    AssignedTopic,
    Assignment,
    Context,
    LiveBroker,
    PartitionLeadership,
    PartitionReplica,
)
from barnabas.controller.states import PartitionState, ReplicaState
from barnabas.znodes.layout import BrokerRegistration, Endpoint, LeaderAndIsr

EPOCH = 7
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(each) for each in ids)


def leading(
    leader: int, isr: Iterable[int], epoch: int = 5, *, by: int = EPOCH, recovering: bool = False
) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), LeaderEpoch(epoch), by, brokers(*isr), recovering)


def live_broker(broker_id: int, rack: str | None = None) -> LiveBroker:
    endpoints = (
        Endpoint("CLIENTS", "outside", 9000 + broker_id, "SASL_SSL"),
        Endpoint("PLAINTEXT", f"host{broker_id}", 19000 + broker_id),
    )
    registration = BrokerRegistration(endpoints, 0, rack)
    return LiveBroker(BrokerId(broker_id), 100 + broker_id, registration)


def context_of(
    partitions: Mapping[TopicPartition, tuple[Assignment, LeaderAndIsr | None]],
    *,
    live: Iterable[int] = (1, 2, 3),
    shutting_down: Iterable[int] = (),
) -> Context:
    """Partitions that have a leader are ONLINE, others NEW; every replica is ONLINE."""
    context = Context(epoch=EPOCH)
    context.apply_brokers({BrokerId(each): live_broker(each) for each in live})
    for broker in shutting_down:
        context.apply_shutting_down(BrokerId(broker))
    for partition, (assignment, state) in partitions.items():
        name = partition.topic
        if name not in context.topics:
            topic_id = uuid.UUID(int=len(context.topics) + 1)
            context.apply_topic(name, AssignedTopic(topic_id, {}, 0))
        context.apply_assignment(name, {partition.partition: assignment})
        if state is not None:
            context.apply_leadership(partition, PartitionLeadership(state, 40))
    context.apply_initial_states(
        {
            each: PartitionState.NEW if state is None else PartitionState.ONLINE
            for each, (_, state) in partitions.items()
        },
        dict.fromkeys(context.replicas_of(partitions), ReplicaState.ONLINE),
    )
    return context


def one(replicas: Iterable[int], state: LeaderAndIsr | None, **more: Iterable[int]) -> Context:
    """A cluster with the one partition T0."""
    return context_of({T0: (Assignment(brokers(*replicas)), state)}, **more)


# -- hypothesis strategies ------------------------------------------------------

BROKERS = brokers(1, 2, 3, 4, 5)
some_brokers = st.lists(st.sampled_from(BROKERS), unique=True).map(tuple)


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    replicas = draw(st.lists(st.sampled_from(BROKERS), unique=True, min_size=1).map(tuple))
    moved = draw(st.lists(st.sampled_from(replicas), unique=True))
    cut = draw(st.integers(0, len(moved)))
    return Assignment(replicas, tuple(moved[:cut]), tuple(moved[cut:]))


@st.composite
def leadings(draw: st.DrawFn, replicas: tuple[BrokerId, ...]) -> LeaderAndIsr:
    """Any valid leadership: the ISR is a subset of the replicas, the leader is in it."""
    isr = tuple(draw(st.lists(st.sampled_from(replicas), unique=True, min_size=1)))
    leader = draw(st.sampled_from((*isr, NO_LEADER)))
    epoch = LeaderEpoch(draw(st.integers(0, 9)))
    return LeaderAndIsr(leader, epoch, draw(st.integers(1, EPOCH)), isr, draw(st.booleans()))


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    """Up to four partitions of two topics, in any states, on brokers that may be down."""
    partitions: dict[TopicPartition, tuple[Assignment, LeaderAndIsr | None]] = {}
    for partition in (T0, T1, TopicPartition("u", 0), TopicPartition("u", 1)):
        if draw(st.booleans()):
            assignment = draw(assignments())
            state = draw(st.none() | leadings(assignment.replicas))
            partitions[partition] = (assignment, state)
    live = draw(some_brokers)
    stopping = draw(st.lists(st.sampled_from(live), unique=True)) if live else []
    context = context_of(partitions, live=live, shutting_down=stopping)
    for broker in live:
        failed = [each for each in partitions if draw(st.integers(0, 4)) == 0]
        context.apply_offline_replicas(broker, failed)
    context.apply_deleting(each for each in context.topics if draw(st.integers(0, 3)) == 0)
    states = {each: draw(st.sampled_from(PartitionState)) for each in partitions}
    replicas = context.replicas_of(partitions)
    context.apply_initial_states(
        states, {each: draw(st.sampled_from(ReplicaState)) for each in replicas}
    )
    return context


def replicas_in(context: Context) -> list[PartitionReplica]:
    return context.replicas_of(context.partitions())
