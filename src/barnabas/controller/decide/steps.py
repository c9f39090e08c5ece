"""What deciders ask for: steps, as data. The controller performs them in order, one event a time.

Performing a step is: decide its details from the context, write the tree with versions checked,
apply to the context, send to the brokers. If a step fails for one partition the others go on;
the failure is logged and returned, and the event that repairs it comes later.
"""

import enum
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Assignment, Context, Replica
from barnabas.controller.states import PartitionState, ReplicaState


class Selector(enum.Enum):
    """How a leader is chosen."""

    NONE_NEEDED = "keep the leader there is"
    OFFLINE = "the leader is gone"
    OFFLINE_UNCLEAN = "the leader is gone, and a person said that losing records is allowed"
    REASSIGNED = "the partition moved to other brokers"
    PREFERRED = "the first replica shall lead"
    CONTROLLED_SHUTDOWN = "the leader's broker is about to stop"


class Refusal(NamedTuple):
    """Why something was not done for one partition: a client's answer, or a line in the log."""

    code: ErrorCode
    message: str | None = None


class MovePartitions(NamedTuple):
    """Take partitions to a state; to ONLINE by electing a leader with `by`."""

    partitions: tuple[TopicPartition, ...]
    to: PartitionState
    by: Selector = Selector.OFFLINE


class MoveReplicas(NamedTuple):
    """Take replicas to a state, with the requests to their brokers that this means."""

    replicas: tuple[Replica, ...]
    to: ReplicaState


class SetAssignments(NamedTuple):
    """Write who holds which partition to the topic's znode, then know it."""

    topic: str
    assignments: Mapping[int, Assignment]


class AssumeAssignments(NamedTuple):
    """Know who holds which partition before the tree does (`Context.apply_assignment` alone).

    While replicas leave, brokers must hear of the partition without them. But the tree is written
    last, by SetAssignments: it alone remembers who else there was, should we fail midway.
    """

    assignments: Mapping[TopicPartition, Assignment]


class RaiseLeaderEpochs(NamedTuple):
    """Give each partition a new leader epoch under the same leader, and tell its replicas.

    So every replica hears of a changed assignment, and whoever leads starts afresh with it.
    `is_new_on` are the brokers for which the replica is new: they may make its log.
    """

    partitions: tuple[TopicPartition, ...]
    is_new_on: tuple[BrokerId, ...] = ()


class TellMetadata(NamedTuple):
    """Send UpdateMetadata; None is every broker, every partition that is not being deleted.

    With () for partitions only the brokers that live are told of.
    """

    brokers: tuple[BrokerId, ...] | None = None
    partitions: tuple[TopicPartition, ...] | None = None


class StopReplicas(NamedTuple):
    """Send StopReplica without deletion, without a change of state (controlled shutdown)."""

    replicas: tuple[Replica, ...]


class EndTopic(NamedTuple):
    """All replicas of a topic are gone: remove its znodes, the deletion's mark last; forget it."""

    topic: str


class DropDeletion(NamedTuple):
    """Remove the marks of deletions that are not to be (unknown topics, deletion disabled)."""

    topics: tuple[str, ...]


class DropReassignments(NamedTuple):
    """Take partitions out of /admin/reassign_partitions; the node goes with the last of them."""

    partitions: tuple[TopicPartition, ...]


class QueueDeletions(NamedTuple):
    """Know that these topics are to be deleted (`Context.apply_deleting`); the tree says so."""

    topics: tuple[str, ...]


class BeginDeletion(NamedTuple):
    """Know that the deletion of a topic has begun (its brokers were told that nobody leads)."""

    topics: tuple[str, ...]


class MarkIneligible(NamedTuple):
    """Know that these topics cannot be deleted now, and why."""

    topics: tuple[str, ...]
    why: str


class MarkEligible(NamedTuple):
    topics: tuple[str, ...]


class Then(NamedTuple):
    """What follows is decided when this is reached, from what the steps before it led to.

    For what must not be done unless they succeeded, or unless the tree says what it did say: once
    they have written a partition's `state`, its leader cannot change it behind our back.
    """

    decide: Callable[[Context], "Steps"]


Step: TypeAlias = (
    MovePartitions
    | MoveReplicas
    | SetAssignments
    | AssumeAssignments
    | RaiseLeaderEpochs
    | TellMetadata
    | StopReplicas
    | EndTopic
    | DropDeletion
    | DropReassignments
    | QueueDeletions
    | BeginDeletion
    | MarkIneligible
    | MarkEligible
    | Then
)
Steps: TypeAlias = tuple[Step, ...]
