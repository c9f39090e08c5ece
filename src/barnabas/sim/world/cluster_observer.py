"""Observation of the cluster without requests: the znode tree, and the brokers' memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.server.cluster.partition_roles import PartitionRoles
from barnabas.sim.world.machine import Machine
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded.nodes import Nodes


@dataclass(frozen=True, slots=True)
class ObservedPartition:
    """One partition as recorded in the tree."""

    topic_partition: TopicPartition
    topic_id: UUID | None
    replicas: tuple[BrokerId, ...]
    is_moving: bool
    state: layout.LeaderAndIsr | None  # None: it never had a leader


class ClusterObserver:
    """Checks the laws that must hold at every moment, and remembers what they refer to."""

    def __init__(self, nodes: Nodes, machines: Sequence[Machine]) -> None:
        self._nodes = nodes
        self._machines = machines
        # The leader of each partition and epoch: there is never another one.
        self._leaders: dict[tuple[TopicPartition, UUID | None, int], int] = {}
        # The highest high watermark of each partition, and the epoch of that leader.
        self._committed: dict[tuple[TopicPartition, UUID | None], tuple[int, int]] = {}
        # The controller epoch of each broker, per process.
        self._obeyed: dict[str, tuple[PartitionRoles, int]] = {}

    # -- the tree ------------------------------------------------------------

    def partitions(self) -> Iterator[ObservedPartition]:
        for topic in sorted(self._nodes[paths.TOPICS].children):
            assignment = layout.decode_topic(topic, self._nodes[paths.topic_path(topic)].data)
            for partition, replicas in sorted(assignment.partitions.items()):
                at = TopicPartition(topic, partition)
                is_moving = bool(
                    assignment.adding.get(partition) or assignment.removing.get(partition)
                )
                yield ObservedPartition(
                    at, assignment.topic_id, replicas, is_moving, self._state(at)
                )

    def _state(self, at: TopicPartition) -> layout.LeaderAndIsr | None:
        path = paths.partition_state_path(at)
        if path not in self._nodes:
            return None
        return layout.decode_partition_state(at, self._nodes[path].data)

    @property
    def controller(self) -> int | None:
        """The controller's broker id in the tree."""
        if paths.CONTROLLER not in self._nodes:
            return None
        return layout.decode_controller(self._nodes[paths.CONTROLLER].data).broker_id

    def why_unhealthy(self) -> str | None:
        """The first reason why the cluster is not healthy; None if it is."""
        for machine in self._machines:
            if machine.broker is None:
                return f"{machine.name} does not serve"
            if machine.is_stopping:
                return f"{machine.name} is stopping"
            if paths.broker_path(BrokerId(machine.broker_id)) not in self._nodes:
                return f"{machine.name} is not registered"
            if machine.broker.logs.offline:
                return f"{machine.name} has offline {', '.join(machine.broker.logs.offline)}"
        if self.controller is None:
            return "no controller is elected"
        if deleted := sorted(self._nodes[paths.DELETE_TOPICS].children):
            return f"topic {deleted[0]} is not deleted yet"
        reasons = (self._why_partition_unhealthy(seen) for seen in self.partitions())
        return next((reason for reason in reasons if reason is not None), None)

    def _why_partition_unhealthy(self, seen: ObservedPartition) -> str | None:
        at = seen.topic_partition
        if seen.is_moving:
            return f"{at} is being reassigned"
        if seen.state is None or seen.state.leader < 0:
            return f"{at} has no leader"
        if sorted(seen.state.isr) != sorted(seen.replicas):
            return f"{at} has only {seen.state.isr} of {seen.replicas} in sync"
        for broker in seen.replicas:
            machine = self._machines[broker]
            if machine.broker is None or machine.broker.logs.get(at) is None:
                return f"{machine.name} has no log of {at}"
        return None

    # -- inside the brokers --------------------------------------------------

    def broken_laws(self) -> list[str]:
        """The laws that running brokers break at this moment."""
        broken: list[str] = []
        for machine in self._machines:
            if machine.broker is None:
                continue
            broken += self._check_controller_epoch(machine.name, machine.broker.partitions)
            for replica in machine.broker.replicas.all():
                at, log = replica.topic_partition, replica.log
                if not log.log_start_offset <= replica.high_watermark <= log.log_end_offset:
                    broken.append(
                        f"{machine.name} has high watermark {replica.high_watermark} of {at}"
                        f" outside of its log {log.log_start_offset} to {log.log_end_offset}"
                    )
                if isinstance(replica, LeaderReplica):
                    broken += self._check_leader(machine.broker_id, replica)
        return broken

    def _check_leader(self, broker: int, leader: LeaderReplica) -> Iterator[str]:
        """An epoch has one leader; a later leader has all committed records. Watches LEAD-1."""
        at, epoch = leader.topic_partition, leader.epoch
        first = self._leaders.setdefault((at, leader.topic_id, epoch), broker)
        if first != broker:
            yield f"brokers {first} and {broker} both lead {at} in epoch {epoch}"
        most, since = self._committed.get((at, leader.topic_id), (0, epoch))
        if epoch > since and leader.log.log_end_offset < most:
            yield (
                f"broker-{broker} leads {at} in epoch {epoch} without all committed records:"
                f" it has {leader.log.log_end_offset} of {most}"
            )
        if leader.high_watermark > most:
            self._committed[at, leader.topic_id] = leader.high_watermark, epoch

    def _check_controller_epoch(self, name: str, partitions: PartitionRoles) -> Iterator[str]:
        """A broker that followed a controller follows no earlier one. Watches CTRL-1."""
        process, epoch = self._obeyed.get(name, (partitions, 0))
        if process is partitions and partitions.controller_epoch < epoch:
            yield f"{name} follows a past controller: {partitions.controller_epoch} after {epoch}"
        self._obeyed[name] = partitions, partitions.controller_epoch

    def may_lose(self, victim: Machine) -> bool:
        """True if another live in-sync replica has all committed records of each partition."""
        return all(
            self._has_another(seen, victim.broker_id)
            for seen in self.partitions()
            if seen.state is not None and victim.broker_id in seen.state.isr
        )

    def is_in_sync(self, machine: Machine) -> bool:
        """True if a serving broker has all committed records wherever it is in sync."""
        if machine.broker is None:
            return False
        return all(
            self._has_all(machine, seen.topic_partition)
            for seen in self.partitions()
            if seen.state is not None and machine.broker_id in seen.state.isr
        )

    def _has_another(self, seen: ObservedPartition, victim: int) -> bool:
        assert seen.state is not None
        return any(
            self._has_all(machine, seen.topic_partition)
            for machine in self._machines
            if machine.broker_id in seen.state.isr and machine.broker_id != victim
        )

    def _has_all(self, machine: Machine, at: TopicPartition) -> bool:
        if machine.broker is None or (own := machine.broker.replicas.get(at)) is None:
            return False
        return own.log.log_end_offset >= max(
            replica.high_watermark
            for other in self._machines
            if other.broker is not None and (replica := other.broker.replicas.get(at)) is not None
        )
