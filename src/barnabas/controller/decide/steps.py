"""Steps: what deciders request, as data, and the messages to brokers that they lead to.

The controller performs the steps of one event in order. It decides a step's details from the
context, writes the tree with versions checked, applies the result to the context, and sends
requests to the brokers. If a step fails for one partition, the others continue; the failure is
logged and returned, and a later event repairs it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Assignment, Context, PartitionReplica
from barnabas.controller.states import PartitionState, ReplicaState, Selector

T = TypeVar("T")

_AT_ONCE: Final = 1000


class ApiError(NamedTuple):
    """The error of one partition: returned to a client, or logged."""

    code: ErrorCode
    message: str | None = None


class MovePartitions(NamedTuple):
    """Move partitions to a state; to ONLINE by electing a leader with `by`."""

    partitions: tuple[TopicPartition, ...]
    to: PartitionState
    by: Selector = Selector.OFFLINE


class MoveReplicas(NamedTuple):
    """Move replicas to a state, and send their brokers the requests that this needs."""

    replicas: tuple[PartitionReplica, ...]
    to: ReplicaState


class SetAssignments(NamedTuple):
    """Write assignments to the topic's znode, then apply them to the context."""

    topic: str
    assignments: Mapping[int, Assignment]


class AssumeAssignments(NamedTuple):
    """Apply assignments to the context only, before the tree has them.

    While replicas are removed, brokers must receive the partition without them. SetAssignments
    writes the tree last: should the controller fail midway, only the tree still has the replicas
    that must be deleted.
    """

    assignments: Mapping[TopicPartition, Assignment]


class RaiseLeaderEpochs(NamedTuple):
    """Raise each partition's leader epoch under the same leader, and notify its replicas.

    So every replica receives a changed assignment, and the leader restarts with it.
    `is_new_on` are the brokers on which the replica is new: they may create its log.
    """

    partitions: tuple[TopicPartition, ...]
    is_new_on: tuple[BrokerId, ...] = ()


class SendMetadata(NamedTuple):
    """Send UpdateMetadata; None means every broker, every partition not being deleted.

    With () for partitions it contains the live brokers only.
    """

    brokers: tuple[BrokerId, ...] | None = None
    partitions: tuple[TopicPartition, ...] | None = None


class StopReplicas(NamedTuple):
    """Send StopReplica without deletion and without a transition (controlled shutdown)."""

    replicas: tuple[PartitionReplica, ...]


class RemoveTopic(NamedTuple):
    """All replicas are deleted: remove the topic's znodes, its deletion mark last; forget it."""

    topic: str


class CancelDeletions(NamedTuple):
    """Remove the marks of refused deletions (unknown topic, deletion disabled)."""

    topics: tuple[str, ...]


class DropReassignments(NamedTuple):
    """Remove partitions from /admin/reassign_partitions; the last one removes the node."""

    partitions: tuple[TopicPartition, ...]


class QueueDeletions(NamedTuple):
    """Apply to the context that these topics are marked for deletion in the tree."""

    topics: tuple[str, ...]


class BeginDeletion(NamedTuple):
    """Apply to the context that deletion has begun: the topics have no leaders any more."""

    topics: tuple[str, ...]


class MarkIneligible(NamedTuple):
    """Apply to the context that these topics cannot be deleted now, and why."""

    topics: tuple[str, ...]
    why: str


class MarkEligible(NamedTuple):
    """Apply to the context that the deletion of these topics may resume."""

    topics: tuple[str, ...]


class Then(NamedTuple):
    """Decide the following steps when this one is reached, from the context at that time.

    It serves steps that depend on the success of those before it, or on an unchanged `state`:
    once the controller has written a partition's `state`, a leader that has not seen the new
    version cannot change it.
    """

    decide: Callable[[Context], "Steps"]


Step: TypeAlias = (
    MovePartitions
    | MoveReplicas
    | SetAssignments
    | AssumeAssignments
    | RaiseLeaderEpochs
    | SendMetadata
    | StopReplicas
    | RemoveTopic
    | CancelDeletions
    | DropReassignments
    | QueueDeletions
    | BeginDeletion
    | MarkIneligible
    | MarkEligible
    | Then
)
Steps: TypeAlias = tuple[Step, ...]


class LeaderAndIsrTo(NamedTuple):
    """Send LeaderAndIsr to replicas, and the partition's metadata to every broker."""

    brokers: tuple[BrokerId, ...]
    partition: TopicPartition
    is_new: bool = False


class StopReplicaTo(NamedTuple):
    """Send StopReplica to brokers, with or without deletion."""

    brokers: tuple[BrokerId, ...]
    partition: TopicPartition
    delete: bool = False


class MetadataOf(NamedTuple):
    """Send a partition's metadata to every broker."""

    partition: TopicPartition


ControlMessage: TypeAlias = LeaderAndIsrTo | StopReplicaTo | MetadataOf


def in_parts(step: Step) -> Iterable[Step]:
    """Split a large step, so that neither the event loop nor a broker is busy for long.

    The partitions of a step do not depend on each other. Adjacent replicas of one partition stay
    together: one write removes them from its ISR. Partitions of one topic stay together unless it
    is very large: a client that sees a new topic must see the right number of partitions.
    """
    match step:
        case MovePartitions(partitions) | RaiseLeaderEpochs(partitions):
            return [
                step._replace(partitions=some) for some in _together(partitions, lambda p: p.topic)
            ]
        case MoveReplicas(replicas):
            return [
                step._replace(replicas=some)
                for some in _together(replicas, lambda replica: replica.topic_partition)
            ]
    return [step]


def whole_topics(context: Context) -> Iterator[tuple[TopicPartition, ...]]:
    """Every partition not being deleted, in parts of whole topics; without topics one empty part.

    A topic is never split, however large: its first UpdateMetadata must hold all its partitions.
    """
    names = [name for name in context.topics if name not in context.deletion_begun]
    some: list[TopicPartition] = []
    for name in names:
        some += context.partitions_of(name)
        if len(some) >= _AT_ONCE or name == names[-1]:
            yield tuple(some)
            some = []
    if not names:
        yield ()


def _together(items: tuple[T, ...], of_what: Callable[[T], object]) -> Iterator[tuple[T, ...]]:
    start = 0
    while start < len(items):
        end = min(start + _AT_ONCE, len(items))
        most = min(start + 2 * _AT_ONCE, len(items))
        while end < most and of_what(items[end]) == of_what(items[end - 1]):
            end += 1
        yield items[start:end]
        start = end
