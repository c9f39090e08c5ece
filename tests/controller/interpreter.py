"""An interpreter of steps on a tree in memory, for tests of deciders.

It models a cluster by its live brokers, its znodes and the replicas that have a log. It performs
steps synchronously, can stop before any write, and builds the context of a new controller.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.controller.context import (
    AssignedTopic,
    Assignment,
    Context,
    LiveBroker,
    PartitionLeadership,
    PartitionReplica,
)
from barnabas.controller.decide.state_transitions import (
    PartitionMoves,
    decide_leader_epochs,
    decide_partitions,
    decide_replicas,
)
from barnabas.controller.decide.steps import (
    ApiError,
    AssumeAssignments,
    BeginDeletion,
    CancelDeletions,
    DropReassignments,
    MarkEligible,
    MarkIneligible,
    MovePartitions,
    MoveReplicas,
    QueueDeletions,
    RaiseLeaderEpochs,
    RemoveTopic,
    SetAssignments,
    Step,
    Steps,
    Then,
)
from barnabas.controller.states import PartitionState, ReplicaState
from barnabas.znodes.layout import BrokerRegistration, LeaderAndIsr


class Crash(Exception):
    """The controller stopped before a step."""


@dataclass
class Cluster:
    """The tree, and the logs on the brokers."""

    live: dict[BrokerId, int] = field(default_factory=dict)
    topics: dict[str, dict[int, Assignment]] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionLeadership] = field(default_factory=dict)
    marks: dict[str, None] = field(default_factory=dict)
    asked: dict[TopicPartition, None] = field(default_factory=dict)
    logs: dict[PartitionReplica, None] = field(default_factory=dict)
    controller_epoch: int = 0

    def assignment(self, partition: TopicPartition) -> Assignment:
        return self.topics[partition.topic][partition.partition]

    def isr(self, partition: TopicPartition) -> tuple[BrokerId, ...]:
        return self.states[partition].state.isr

    def write_isr(self, partition: TopicPartition, isr: Iterable[BrokerId]) -> None:
        """Write the ISR as a leader that knows the newest state does."""
        leadership = self.states[partition]
        state = leadership.state
        self.states[partition] = PartitionLeadership(
            LeaderAndIsr(state.leader, state.leader_epoch, state.controller_epoch, tuple(isr)),
            leadership.version + 1,
        )

    def catch_up(self, partition: TopicPartition) -> None:
        """Add every live assigned replica with a log to the ISR, if the partition has a leader."""
        isr = self.isr(partition)
        if self.states[partition].state.leader in self.live:
            joined = (
                broker
                for broker in self.assignment(partition).replicas
                if broker in self.live and PartitionReplica(partition, broker) in self.logs
            )
            self.write_isr(partition, dict.fromkeys((*isr, *joined)))

    def elect_controller(self) -> Context:
        """The context of a new controller, with its initial states."""
        self.controller_epoch += 1
        context = Context(epoch=self.controller_epoch)
        context.apply_brokers(live(self.live))
        for name, partitions in self.topics.items():
            context.apply_topic(name, AssignedTopic(uuid.UUID(int=1), dict(partitions), 0))
        for partition, leadership in self.states.items():
            context.apply_leadership(partition, leadership)
        states = {each: _first_state(context, each) for each in context.partitions()}
        replicas = context.replicas_of(states)
        context.apply_initial_states(
            states, {each: _first_replica_state(context, each) for each in replicas}
        )
        return context


def live(epochs: Mapping[BrokerId, int]) -> dict[BrokerId, LiveBroker]:
    registration = BrokerRegistration(endpoints=(), timestamp_ms=0)
    return {b: LiveBroker(b, epoch, registration) for b, epoch in epochs.items()}


def _first_state(context: Context, partition: TopicPartition) -> PartitionState:
    leadership = context.leadership.get(partition)
    if leadership is None:
        return PartitionState.NEW
    alive = context.is_online(leadership.state.leader, partition)
    return PartitionState.ONLINE if alive else PartitionState.OFFLINE


def _first_replica_state(context: Context, replica: PartitionReplica) -> ReplicaState:
    alive = context.is_online(replica.broker_id, replica.topic_partition)
    return ReplicaState.ONLINE if alive else ReplicaState.DELETION_INELIGIBLE


class Controller:
    """Performs steps; `performed` has the steps done, `refused` the errors."""

    def __init__(self, cluster: Cluster, crash_after: int | None = None) -> None:
        self.cluster = cluster
        self.context = cluster.elect_controller()
        self.performed: list[Step] = []
        self.refused: list[tuple[TopicPartition | PartitionReplica, ApiError]] = []
        self._crash_after = crash_after

    def perform(self, steps: Steps) -> None:
        """Raises Crash before the step after the last allowed one."""
        for step in steps:
            if self._crash_after is not None and len(self.performed) >= self._crash_after:
                raise Crash
            self.performed.append(step)
            self._perform(step)

    def read_states(self, *partitions: TopicPartition) -> None:
        for each in partitions:
            self.context.apply_leadership(each, self.cluster.states[each])

    def _perform(self, step: Step) -> None:
        context, cluster = self.context, self.cluster
        match step:
            case MovePartitions(partitions, to, by):
                self._read_again(partitions)
                moves = decide_partitions(context, partitions, to, by, lambda _: False)
                self._write(moves, to)
            case RaiseLeaderEpochs(partitions, new):
                self._read_again(partitions)
                self._write(decide_leader_epochs(context, partitions, new), None)
            case MoveReplicas(replicas, to):
                self._move_replicas(replicas, to)
            case SetAssignments(topic, assignments):
                cluster.topics[topic] = {**cluster.topics[topic], **assignments}
                context.apply_assignment(topic, assignments)
            case AssumeAssignments(assumption):
                for each, assumed in assumption.items():
                    context.apply_assignment(each.topic, {each.partition: assumed})
            case RemoveTopic(topic):
                for each in list(context.partitions_of(topic)):
                    cluster.states.pop(each, None)
                del cluster.topics[topic]
                cluster.marks.pop(topic)
                context.apply_topic_gone(topic)
            case CancelDeletions(topics):
                for topic in topics:
                    cluster.marks.pop(topic)
            case DropReassignments(partitions):
                for each in partitions:
                    cluster.asked.pop(each, None)
            case QueueDeletions(topics):
                context.apply_deleting(topics)
            case BeginDeletion(topics):
                for topic in topics:
                    context.apply_deletion_begun(topic)
            case MarkIneligible(topics, why):
                context.apply_ineligible(topics, why)
            case MarkEligible(topics):
                context.apply_eligible(topics)
            case Then(decide):
                self.perform(decide(context))

    def _read_again(self, partitions: Iterable[TopicPartition]) -> None:
        """Read what a leader wrote meanwhile, and decide again."""
        self.read_states(*(each for each in partitions if each in self.cluster.states))

    def _write(self, moves: PartitionMoves, to: PartitionState | None) -> None:
        for partition, state in moves.creates.items():
            self._wrote(partition, PartitionLeadership(state, 0))
        for partition, (state, version) in moves.updates.items():
            self._wrote(partition, PartitionLeadership(state, version + 1))
        for partition in (*moves.moved, *moves.creates, *moves.updates):
            if to is not None:
                self.context.apply_partition_state(partition, to)
            if to in (PartitionState.ONLINE, None):
                self._tell(partition)
        self.refused.extend(moves.refused.items())

    def _wrote(self, partition: TopicPartition, leadership: PartitionLeadership) -> None:
        self.cluster.states[partition] = leadership
        self.context.apply_leadership(partition, leadership)

    def _tell(self, partition: TopicPartition) -> None:
        """LeaderAndIsr: live receivers create their log."""
        for broker in self.context.assignment(partition).replicas:
            if broker in self.cluster.live:
                self.cluster.logs[PartitionReplica(partition, broker)] = None

    def _move_replicas(self, replicas: Iterable[PartitionReplica], to: ReplicaState) -> None:
        replicas = list(replicas)
        self._read_again(each.topic_partition for each in replicas)
        moves = decide_replicas(self.context, replicas, to)
        for partition, (state, version) in moves.updates.items():
            self._wrote(partition, PartitionLeadership(state, version + 1))
        for replica in moves.moved:
            self.context.apply_replica_state(replica, to)
            if replica.broker_id not in self.cluster.live:
                continue
            if to is ReplicaState.DELETION_STARTED:
                self.cluster.logs.pop(replica, None)
            elif to in (ReplicaState.NEW, ReplicaState.ONLINE):
                self.cluster.logs[replica] = None
        self.refused.extend(moves.refused.items())


def partition_led_by(
    leader: int, isr: Iterable[int], epoch: int = 0, controller_epoch: int = 0
) -> PartitionLeadership:
    in_sync = tuple(map(BrokerId, isr))
    return PartitionLeadership(
        LeaderAndIsr(BrokerId(leader), LeaderEpoch(epoch), controller_epoch, in_sync), 0
    )


def cluster_of(brokers: int, **topics: list[tuple[int, ...]]) -> Cluster:
    """Brokers 0 to `brokers` - 1 are alive; all replicas are in sync, the first one leads."""
    cluster = Cluster(live={BrokerId(b): 1 for b in range(brokers)})
    for name, partitions in topics.items():
        cluster.topics[name] = {}
        for index, replicas in enumerate(partitions):
            ids = tuple(map(BrokerId, replicas))
            partition = TopicPartition(name, index)
            cluster.topics[name][index] = Assignment(ids)
            cluster.states[partition] = partition_led_by(ids[0], ids)
            cluster.logs.update(dict.fromkeys(PartitionReplica(partition, b) for b in ids))
    return cluster
