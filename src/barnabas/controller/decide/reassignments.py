"""Partition reassignment, in steps that any later controller can continue.

The topic's znode records a reassignment: the replicas of both assignments, and which of them are
`adding` and `removing`. A reassignment is

1. written there: the target replicas first, in their order, then those to remove;
2. started: all replicas get a new leader epoch, and the new ones begin to fetch;
3. awaited: until every target replica is in sync (the leader writes the ISR to `state`);
4. completed: a target replica leads, the others leave the ISR, stop and are deleted; only then is
   the znode written with the target replicas alone.

If the controller fails before the last write, its successor finds the reassignment and continues
at 2 or 4; every step may be repeated. Replicas that a cancelled or replaced reassignment was
adding are removed in the same way, before the znode forgets them.

The leader epoch is raised before replicas are removed: a leader that has not seen the change can
then not write any of them back into the ISR. topic_deletions.py decides which deletions resume
after a reassignment.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Assignment, Context, PartitionReplica
from barnabas.controller.decide.steps import (
    ApiError,
    AssumeAssignments,
    DropReassignments,
    MarkEligible,
    MarkIneligible,
    MovePartitions,
    MoveReplicas,
    RaiseLeaderEpochs,
    SendMetadata,
    SetAssignments,
    Step,
    Steps,
    Then,
)
from barnabas.controller.states import PartitionState, ReplicaState, Selector

Brokers = tuple[BrokerId, ...]
Assignments = Mapping[TopicPartition, Assignment]
AfterRemoval = Callable[[Context, tuple[TopicPartition, ...]], Steps]


# -- validation ----------------------------------------------------------------


def check_target(context: Context, partition: TopicPartition, target: Brokers) -> ApiError | None:
    """The error of a request to reassign a partition to these brokers, or None."""
    refusal = check_planned(context, partition, target)
    if refusal is not None:
        return refusal
    alive = context.available()
    adding = reassigned(context.assignment(partition), target).adding
    if dead := [broker for broker in adding if broker not in alive]:
        return _invalid(f"brokers {dead} are not alive (alive: {sorted(alive)})")
    return None


def check_planned(context: Context, partition: TopicPartition, target: Brokers) -> ApiError | None:
    """The error of a reassignment in /admin/reassign_partitions, or None.

    It may name brokers that are down, as in Kafka: the reassignment starts and waits for them.
    """
    if partition not in context or context.is_deleting(partition.topic):
        return _UNKNOWN
    if not target:
        return _invalid("the list of replicas is empty")
    if len(set(target)) < len(target):
        return _invalid(f"a broker is named twice: {list(target)}")
    if min(target) < 0:
        return _invalid(f"a broker id is negative: {list(target)}")
    return _data_loss(context, partition, reassigned(context.assignment(partition), target))


def check_cancel(context: Context, partition: TopicPartition) -> ApiError | None:
    """The error of a request to cancel a partition's reassignment, or None."""
    if partition not in context or context.is_deleting(partition.topic):
        return _UNKNOWN
    current = context.assignment(partition)
    if not current.is_reassigning:
        return ApiError(ErrorCode.no_reassignment_in_progress, None)
    return _data_loss(context, partition, Assignment(current.origin))


def _data_loss(context: Context, partition: TopicPartition, wanted: Assignment) -> ApiError | None:
    """The error if no remaining replica could lead without loss of records, or None."""
    leadership, current = context.leadership.get(partition), context.assignment(partition)
    staying = [broker for broker in current.replicas if broker in wanted.replicas]
    if leadership is None or len(staying) == len(current.replicas):
        return None
    if any(b in leadership.state.isr and context.is_available(b, partition) for b in staying):
        return None
    return _invalid(f"none of brokers {staying} is alive and in sync: records could be lost")


# -- start, continue, cancel ---------------------------------------------------


def decide_starts(context: Context, targets: Mapping[TopicPartition, Brokers]) -> Steps:
    """Reassign each partition to its target, replacing a reassignment in progress.

    Partitions that could lose records are left alone. The caller first removes a partition that a
    client reassigns from /admin/reassign_partitions: the last request counts.
    """
    moves = {each: reassigned(context.assignment(each), to) for each, to in targets.items()}
    moves = {each: to for each, to in moves.items() if _data_loss(context, each, to) is None}
    replacing: dict[TopicPartition, Assignment] = {}
    staying: dict[TopicPartition, Assignment] = {}
    for each, to in moves.items():
        current = context.assignment(each).replicas
        kept = tuple(broker for broker in to.replicas if broker in current)
        if len(kept) < len(current):
            # Until the znode has the new reassignment, brokers see only the remaining replicas.
            replacing[each], staying[each] = to, Assignment(kept)
    fresh = {each: to for each, to in moves.items() if each not in replacing}

    def replace(now: Context, left: tuple[TopicPartition, ...]) -> Steps:
        begun = _subset(replacing, left)
        return (*_write_assignments(begun), *_continue_moves(now, begun))

    return (
        *_hold_deletions(context, moves),
        *_write_assignments(
            {each: to for each, to in fresh.items() if to != context.assignment(each)}
        ),
        *_continue_moves(context, fresh),
        *_remove_replicas(context, staying, replace),
    )


def decide_progress(context: Context, *partitions: TopicPartition) -> Steps:
    """Complete the reassignments whose target replicas are in sync.

    The context has the newest `state` of these partitions.
    """
    ready = {
        each: context.assignment(each)
        for each in partitions
        if each in context
        and context.assignment(each).is_reassigning
        and _has_caught_up(context, each, context.assignment(each))
    }
    return (*_hold_deletions(context, ready), *_complete(context, ready))


def decide_resume(context: Context, *partitions: TopicPartition) -> Steps:
    """Continue reassignments that brokers may not know of: complete them, or start them again.

    For a new controller, and when a target broker starts.
    """
    moves = {each: context.assignment(each) for each in partitions if each in context}
    moves = {each: to for each, to in moves.items() if to.is_reassigning}
    return (*_hold_deletions(context, moves), *_continue_moves(context, moves))


def decide_cancel(context: Context, *partitions: TopicPartition) -> Steps:
    """Return to the original replicas; partitions that `check_cancel` refuses are left alone.

    The replicas keep their order in the reassignment: the znode has no other.
    """
    cancelled = tuple(each for each in partitions if check_cancel(context, each) is None)
    if not cancelled:
        return ()
    origin = {each: Assignment(context.assignment(each).origin) for each in cancelled}

    def go_back(now: Context, left: tuple[TopicPartition, ...]) -> Steps:
        return (*_write_assignments(_subset(origin, left)), *_announce(now, left))

    return (DropReassignments(cancelled), *_remove_replicas(context, origin, go_back))


def moving_to(context: Context, brokers: Container[BrokerId]) -> list[TopicPartition]:
    """The partitions under reassignment whose target includes one of these brokers."""
    return [
        each
        for each in context.reassigning()
        if any(broker in brokers for broker in context.assignment(each).target)
    ]


def reassigned(current: Assignment, target: Brokers) -> Assignment:
    """The assignment during a reassignment to `target`, which replaces the current one."""
    origin = current.origin
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return Assignment(
        replicas,
        adding=tuple(broker for broker in replicas if broker not in origin),
        removing=tuple(broker for broker in replicas if broker not in target),
    )


# -- the steps of a reassignment -----------------------------------------------


def _continue_moves(context: Context, moves: Assignments) -> Steps:
    ready = {each: to for each, to in moves.items() if _has_caught_up(context, each, to)}
    waiting = {each: to for each, to in moves.items() if each not in ready}
    return (*_start_replicas(context, waiting), *_complete(context, ready))


def _has_caught_up(context: Context, partition: TopicPartition, to: Assignment) -> bool:
    """True if every target replica is in sync, and able to lead once the others are removed."""
    if not to.is_reassigning:
        return True
    leadership = context.leadership.get(partition)
    return leadership is not None and all(
        broker in leadership.state.isr and context.is_available(broker, partition)
        for broker in to.target
    )


def _start_replicas(context: Context, moves: Assignments) -> Steps:
    """Notify every replica of the reassignment, and start the new ones."""
    by_adding: dict[Brokers, list[TopicPartition]] = {}
    for each, to in moves.items():
        if each in context.leadership:
            by_adding.setdefault(to.adding, []).append(each)
    adding = (PartitionReplica(each, broker) for each, to in moves.items() for broker in to.adding)
    new = tuple(r for r in adding if context.replica_state_of(r) is ReplicaState.NON_EXISTENT)
    return (
        *(RaiseLeaderEpochs(tuple(group), brokers) for brokers, group in by_adding.items()),
        *((MoveReplicas(new, ReplicaState.NEW),) if new else ()),
        # A partition that never had a leader, for want of a live replica, may get one now.
        *_elect([each for each in moves if each not in context.leadership], Selector.OFFLINE),
    )


def _complete(context: Context, moves: Assignments) -> Steps:
    if not moves:
        return ()
    ended = {each: Assignment(to.target) for each, to in moves.items()}
    arrived = tuple(
        PartitionReplica(each, broker) for each, to in moves.items() for broker in to.adding
    )

    def end(now: Context, left: tuple[TopicPartition, ...]) -> Steps:
        return (
            *_write_assignments({each: ended[each] for each in left if ended[each] != moves[each]}),
            DropReassignments(left),
            *_announce(now, left),
        )

    return (
        *((MoveReplicas(arrived, ReplicaState.ONLINE),) if arrived else ()),
        *_remove_replicas(context, ended, end, moves),
    )


def _remove_replicas(
    context: Context, staying: Assignments, after: AfterRemoval, moves: Assignments | None = None
) -> Steps:
    """Remove all replicas but those of `staying`, then perform `after`; the znode keeps them all.

    First the brokers receive, under a new leader epoch, the partition without the others. That
    write also keeps the leader from changing the ISR until it knows. If the ISR has changed such
    that the others are needed, they are restored.

    `moves` are the partitions' reassignments if these complete, even if the context lacks them.
    """
    if not staying:
        return ()
    before = moves or {each: context.assignment(each) for each in staying}
    elect: list[TopicPartition] = []
    keep: list[TopicPartition] = []
    for each, to in staying.items():
        if each in context.leadership:
            (keep if _is_led_by(context, each, to) else elect).append(each)
    return (
        AssumeAssignments(staying),
        *_elect(elect, Selector.REASSIGNED),
        *((RaiseLeaderEpochs(tuple(keep)),) if keep else ()),
        Then(lambda now: _delete_removed(now, before, staying, after, is_end=moves is not None)),
    )


def _delete_removed(
    context: Context, before: Assignments, staying: Assignments, after: AfterRemoval, is_end: bool
) -> Steps:
    needed = {
        each: was
        for each, was in before.items()
        if (each in context.leadership and not _is_led_by(context, each, staying[each]))
        or (is_end and not _has_caught_up(context, each, was))
    }
    left = tuple(each for each in staying if each not in needed)
    leaving = tuple(
        PartitionReplica(each, broker)
        for each in left
        for broker in before[each].replicas
        if broker not in staying[each].replicas
    )
    return (
        *((AssumeAssignments(needed), *_start_replicas(context, needed)) if needed else ()),
        *((MoveReplicas(leaving, to) for to in _REMOVAL_STATES) if leaving else ()),
        *(after(context, left) if left else ()),
    )


def _is_led_by(context: Context, partition: TopicPartition, staying: Assignment) -> bool:
    """True if a staying replica leads, so that removing the others loses no records."""
    leader = context.leadership[partition].state.leader
    return leader in staying.replicas and context.is_online(leader, partition)


def _subset(assignments: Assignments, partitions: tuple[TopicPartition, ...]) -> Assignments:
    return {each: assignments[each] for each in partitions}


def _elect(partitions: list[TopicPartition], by: Selector) -> Steps:
    return (MovePartitions(tuple(partitions), PartitionState.ONLINE, by),) if partitions else ()


def _write_assignments(assignments: Assignments) -> Iterator[Step]:
    by_topic: dict[str, dict[int, Assignment]] = {}
    for each, to in assignments.items():
        by_topic.setdefault(each.topic, {})[each.partition] = to
    for topic, changed in by_topic.items():
        yield SetAssignments(topic, changed)


def _announce(context: Context, ended: tuple[TopicPartition, ...]) -> Steps:
    return (SendMetadata(None, ended), *_release_deletions(context, ended))


# -- deletions wait for reassignments ------------------------------------------


def _hold_deletions(context: Context, moves: Assignments) -> Steps:
    topics = tuple(dict.fromkeys(e.topic for e in moves if context.is_deleting(e.topic)))
    return (MarkIneligible(topics, MOVING),) if topics else ()


def _release_deletions(context: Context, ended: tuple[TopicPartition, ...]) -> Steps:
    over = frozenset(ended)
    topics = tuple(
        topic
        for topic in dict.fromkeys(each.topic for each in ended)
        if context.is_deleting(topic) and not is_moving(context, topic, but=over)
    )
    return (MarkEligible(topics),) if topics else ()


def is_moving(context: Context, topic: str, but: Container[TopicPartition] = frozenset()) -> bool:
    """True if a partition of the topic, other than those in `but`, is being reassigned."""
    return any(
        context.assignment(each).is_reassigning and each not in but
        for each in context.partitions_of(topic)
    )


# A removed replica passes through all of these. The controller does not wait until its broker has
# deleted it: the partition is complete without it.
_REMOVAL_STATES: Final = (
    ReplicaState.OFFLINE,
    ReplicaState.DELETION_STARTED,
    ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.NON_EXISTENT,
)
MOVING: Final = "a partition is being reassigned"
_UNKNOWN: Final = ApiError(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_replica_assignment, message)
