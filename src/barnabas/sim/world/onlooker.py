"""What an onlooker sees of the cluster without asking anyone: the tree, and inside the brokers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.server.cluster.partition_roles import Partitions
from barnabas.sim.world.machine import Machine
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded.nodes import Nodes


@dataclass(frozen=True, slots=True)
class Seen:
    """One partition, as the tree has it."""

    topic_partition: TopicPartition
    topic_id: UUID | None
    replicas: tuple[BrokerId, ...]
    is_moving: bool
    state: layout.PartitionState | None  # None: nobody has ever led it


class Onlooker:
    """Looks at a cluster, and remembers what must never change."""

    def __init__(self, nodes: Nodes, machines: Sequence[Machine]) -> None:
        self._nodes = nodes
        self._machines = machines
        # Who has led a partition in an epoch: nobody else may, ever.
        self._leaders: dict[tuple[TopicPartition, UUID | None, int], int] = {}
        # How much of a partition was ever committed, and in which epoch that was seen.
        self._committed: dict[tuple[TopicPartition, UUID | None], tuple[int, int]] = {}
        # Which controller's epoch each broker went by, in which of its lives.
        self._obeyed: dict[str, tuple[Partitions, int]] = {}

    # -- the tree ------------------------------------------------------------

    def partitions(self) -> Iterator[Seen]:
        for topic in sorted(self._nodes[paths.TOPICS].children):
            assignment = layout.decode_topic(topic, self._nodes[paths.topic_path(topic)].data)
            for partition, replicas in sorted(assignment.partitions.items()):
                at = TopicPartition(topic, partition)
                is_moving = bool(
                    assignment.adding.get(partition) or assignment.removing.get(partition)
                )
                yield Seen(at, assignment.topic_id, replicas, is_moving, self._state(at))

    def _state(self, at: TopicPartition) -> layout.PartitionState | None:
        path = paths.partition_state_path(at)
        if path not in self._nodes:
            return None
        return layout.decode_partition_state(at, self._nodes[path].data)

    @property
    def controller(self) -> int | None:
        """The broker that is controller, as the tree has it."""
        if paths.CONTROLLER not in self._nodes:
            return None
        return layout.decode_controller(self._nodes[paths.CONTROLLER].data).broker_id

    def what_is_missing(self) -> str | None:
        """What keeps the cluster from being whole; None if it is."""
        for machine in self._machines:
            if machine.broker is None:
                return f"{machine.name} does not serve"
            if machine.is_stopping:
                return f"{machine.name} is about to stop"
            if paths.broker_path(BrokerId(machine.broker_id)) not in self._nodes:
                return f"{machine.name} is not registered"
            if machine.broker.logs.offline:
                return f"{machine.name} lacks {', '.join(machine.broker.logs.offline)}"
        if self.controller is None:
            return "there is no controller"
        if deleted := sorted(self._nodes[paths.DELETE_TOPICS].children):
            return f"topic {deleted[0]} is not deleted yet"
        missing = (self._missing_of(seen) for seen in self.partitions())
        return next((each for each in missing if each is not None), None)

    def _missing_of(self, seen: Seen) -> str | None:
        at = seen.topic_partition
        if seen.is_moving:
            return f"{at} is being moved"
        if seen.state is None or seen.state.leader < 0:
            return f"nobody leads {at}"
        if sorted(seen.state.isr) != sorted(seen.replicas):
            return f"{at} has only {seen.state.isr} of {seen.replicas} in sync"
        for broker in seen.replicas:
            machine = self._machines[broker]
            if machine.broker is None or machine.broker.logs.get(at) is None:
                return f"{machine.name} has no log of {at}"
        return None

    # -- inside the brokers --------------------------------------------------

    def broken_laws(self) -> list[str]:
        """What no broker that runs may show, at any time."""
        broken: list[str] = []
        for machine in self._machines:
            if machine.broker is None:
                continue
            broken += self._disobedience(machine.name, machine.broker.partitions)
            for replica in machine.broker.replicas.all():
                at, log = replica.topic_partition, replica.log
                if not log.log_start_offset <= replica.high_watermark <= log.log_end_offset:
                    broken.append(
                        f"{machine.name} believes {replica.high_watermark} of {at} to be committed"
                        f" and has {log.log_start_offset} to {log.log_end_offset}"
                    )
                if isinstance(replica, LeaderReplica):
                    broken += self._misled(machine.broker_id, replica)
        return broken

    def _misled(self, broker: int, leader: LeaderReplica) -> Iterator[str]:
        """An epoch has one leader; a later leader has all that was committed. Watches LEAD-1."""
        at, epoch = leader.topic_partition, leader.epoch
        first = self._leaders.setdefault((at, leader.topic_id, epoch), broker)
        if first != broker:
            yield f"brokers {first} and {broker} both lead {at} in epoch {epoch}"
        most, since = self._committed.get((at, leader.topic_id), (0, epoch))
        if epoch > since and leader.log.log_end_offset < most:
            yield (
                f"broker-{broker} leads {at} in epoch {epoch} without all that was committed:"
                f" it has {leader.log.log_end_offset} of {most}"
            )
        if leader.high_watermark > most:
            self._committed[at, leader.topic_id] = leader.high_watermark, epoch

    def _disobedience(self, name: str, partitions: Partitions) -> Iterator[str]:
        """A broker that obeyed a controller obeys no earlier one. Watches CTRL-1."""
        life, epoch = self._obeyed.get(name, (partitions, 0))
        if life is partitions and partitions.controller_epoch < epoch:
            yield f"{name} obeys a past controller: {partitions.controller_epoch} after {epoch}"
        self._obeyed[name] = partitions, partitions.controller_epoch

    def may_lose(self, victim: Machine) -> bool:
        """Whether all that is promised is also on another in-sync replica that lives."""
        return all(
            self._has_another(seen, victim.broker_id)
            for seen in self.partitions()
            if seen.state is not None and victim.broker_id in seen.state.isr
        )

    def is_in_sync(self, machine: Machine) -> bool:
        """Whether a broker that serves has all that is promised, wherever it is in sync."""
        if machine.broker is None:
            return False
        return all(
            self._has_all(machine, seen.topic_partition)
            for seen in self.partitions()
            if seen.state is not None and machine.broker_id in seen.state.isr
        )

    def _has_another(self, seen: Seen, victim: int) -> bool:
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
