"""Moving partitions to other brokers, so that whoever is the controller can finish the move.

The topic's znode says what is being moved: the brokers of both assignments, which of them are
`adding` and which `removing`. A move is

1. written there: the new brokers first, in their order, then those that only were;
2. told: a new leader epoch for all of them, and the new replicas begin to fetch;
3. waited for: until all that it moves to are in sync (the leader writes that to `state`);
4. ended: the leader is one of the new, the others leave the ISR, stop and are deleted; only then
   is the znode written with the new brokers alone.

If the controller fails before the last write, its heir finds the move still under way and goes on
from 2 or 4; doing a step twice does no harm. Replicas that a cancelled or replaced move was adding
leave in the same manner, before the znode forgets them.

A fresh leader epoch comes before replicas leave: a leader that does not know of the change yet can
then not write any of them back into the ISR. Deletions that may go on when a move has ended are for
deletions.py to say.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Assignment, Context, Replica
from barnabas.controller.decide.steps import (
    AssumeAssignments,
    DropReassignments,
    MarkEligible,
    MarkIneligible,
    MovePartitions,
    MoveReplicas,
    RaiseLeaderEpochs,
    Refusal,
    Selector,
    SetAssignments,
    Step,
    Steps,
    TellMetadata,
    Then,
)
from barnabas.controller.states import PartitionState, ReplicaState

Brokers = tuple[BrokerId, ...]
Assignments = Mapping[TopicPartition, Assignment]
AfterParting = Callable[[Context, tuple[TopicPartition, ...]], Steps]


# -- may it be -----------------------------------------------------------------


def check_target(context: Context, partition: TopicPartition, target: Brokers) -> Refusal | None:
    """Why a request cannot have a partition moved to these brokers, or None."""
    refusal = check_planned(context, partition, target)
    if refusal is not None:
        return refusal
    alive = context.available()
    adding = reassigned(context.assignment(partition), target).adding
    if dead := [broker for broker in adding if broker not in alive]:
        return _invalid(f"brokers {dead} are not alive; alive are {sorted(alive)}")
    return None


def check_planned(context: Context, partition: TopicPartition, target: Brokers) -> Refusal | None:
    """Why a plan in the tree cannot be followed, or None.

    A plan may name brokers that are down, as in Kafka: the move begins, and waits for them.
    """
    if partition not in context or context.is_deleting(partition.topic):
        return _UNKNOWN
    if not target:
        return _invalid("the list of replicas is empty")
    if len(set(target)) < len(target):
        return _invalid(f"a broker is named twice: {list(target)}")
    if min(target) < 0:
        return _invalid(f"a broker id is negative: {list(target)}")
    return _loss(context, partition, reassigned(context.assignment(partition), target))


def check_cancel(context: Context, partition: TopicPartition) -> Refusal | None:
    """Why the move of a partition cannot be cancelled, or None."""
    if partition not in context or context.is_deleting(partition.topic):
        return _UNKNOWN
    current = context.assignment(partition)
    if not current.is_reassigning:
        return Refusal(ErrorCode.no_reassignment_in_progress, None)
    return _loss(context, partition, Assignment(current.origin))


def _loss(context: Context, partition: TopicPartition, wanted: Assignment) -> Refusal | None:
    """Refuses to take away replicas now if none that could lead without loss would stay."""
    led, current = context.led.get(partition), context.assignment(partition)
    staying = [broker for broker in current.replicas if broker in wanted.replicas]
    if led is None or len(staying) == len(current.replicas):
        return None
    if any(b in led.state.isr and context.is_available(b, partition) for b in staying):
        return None
    return _invalid(f"of brokers {staying} none is alive and in sync: records could be lost")


# -- begin, go on, cancel ------------------------------------------------------


def decide_starts(context: Context, targets: Mapping[TopicPartition, Brokers]) -> Steps:
    """Move each partition to its target; a move that is under way is replaced by this one.

    What `check_target` refuses because records could be lost is left alone. A partition that is
    moved at a client's request is taken out of /admin/reassign_partitions before: the last word
    counts.
    """
    moves = {each: reassigned(context.assignment(each), to) for each, to in targets.items()}
    moves = {each: to for each, to in moves.items() if _loss(context, each, to) is None}
    replacing: dict[TopicPartition, Assignment] = {}
    staying: dict[TopicPartition, Assignment] = {}
    for each, to in moves.items():
        current = context.assignment(each).replicas
        kept = tuple(broker for broker in to.replicas if broker in current)
        if len(kept) < len(current):
            # Until the znode tells of the new move, brokers hear only of those that stay.
            replacing[each], staying[each] = to, Assignment(kept)
    fresh = {each: to for each, to in moves.items() if each not in replacing}

    def replace(now: Context, left: tuple[TopicPartition, ...]) -> Steps:
        begun = _only(replacing, left)
        return (*_written(begun), *_gone_on(now, begun))

    return (
        *_deletions_held(context, moves),
        *_written({each: to for each, to in fresh.items() if to != context.assignment(each)}),
        *_gone_on(context, fresh),
        *_parted(context, staying, replace),
    )


def decide_progress(context: Context, *partitions: TopicPartition) -> Steps:
    """End the moves that have all they move to in sync; the context has their newest `state`."""
    ready = {
        each: context.assignment(each)
        for each in partitions
        if each in context
        and context.assignment(each).is_reassigning
        and _has_caught_up(context, each, context.assignment(each))
    }
    return (*_deletions_held(context, ready), *_ended(context, ready))


def decide_resume(context: Context, *partitions: TopicPartition) -> Steps:
    """Go on with moves of which the brokers may not have heard: end them, or tell them again.

    For a new controller, and when a broker comes up that something is moved to.
    """
    moves = {each: context.assignment(each) for each in partitions if each in context}
    moves = {each: to for each, to in moves.items() if to.is_reassigning}
    return (*_deletions_held(context, moves), *_gone_on(context, moves))


def decide_cancel(context: Context, *partitions: TopicPartition) -> Steps:
    """Go back to the brokers that a partition had; what `check_cancel` refuses is left alone.

    They come back in the order in which the move names them: the znode knows no other.
    """
    cancelled = tuple(each for each in partitions if check_cancel(context, each) is None)
    if not cancelled:
        return ()
    origin = {each: Assignment(context.assignment(each).origin) for each in cancelled}

    def go_back(now: Context, left: tuple[TopicPartition, ...]) -> Steps:
        return (*_written(_only(origin, left)), *_announced(now, left))

    return (DropReassignments(cancelled), *_parted(context, origin, go_back))


def moving_to(context: Context, brokers: Container[BrokerId]) -> list[TopicPartition]:
    """The partitions that are being moved to, or kept on, one of these brokers."""
    return [
        each
        for each in context.reassigning()
        if any(broker in brokers for broker in context.assignment(each).target)
    ]


def reassigned(current: Assignment, target: Brokers) -> Assignment:
    """The assignment during a move to `target`, which replaces the move there is."""
    origin = current.origin
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return Assignment(
        replicas,
        adding=tuple(broker for broker in replicas if broker not in origin),
        removing=tuple(broker for broker in replicas if broker not in target),
    )


# -- the steps of a move -------------------------------------------------------


def _gone_on(context: Context, moves: Assignments) -> Steps:
    ready = {each: to for each, to in moves.items() if _has_caught_up(context, each, to)}
    waiting = {each: to for each, to in moves.items() if each not in ready}
    return (*_told(context, waiting), *_ended(context, ready))


def _has_caught_up(context: Context, partition: TopicPartition, to: Assignment) -> bool:
    """Whether all that it moves to are in sync, and able to lead when the others are gone."""
    if not to.is_reassigning:
        return True
    led = context.led.get(partition)
    return led is not None and all(
        broker in led.state.isr and context.is_available(broker, partition) for broker in to.target
    )


def _told(context: Context, moves: Assignments) -> Steps:
    """Let every replica hear of the move, and the new ones begin."""
    by_adding: dict[Brokers, list[TopicPartition]] = {}
    for each, to in moves.items():
        if each in context.led:
            by_adding.setdefault(to.adding, []).append(each)
    adding = (Replica(each, broker) for each, to in moves.items() for broker in to.adding)
    new = tuple(r for r in adding if context.replica_state_of(r) is ReplicaState.NON_EXISTENT)
    return (
        *(RaiseLeaderEpochs(tuple(group), brokers) for brokers, group in by_adding.items()),
        *((MoveReplicas(new, ReplicaState.NEW),) if new else ()),
        # One that never had a leader, as none of its brokers lived, may have it in a new one.
        *_elected([each for each in moves if each not in context.led], Selector.OFFLINE),
    )


def _ended(context: Context, moves: Assignments) -> Steps:
    if not moves:
        return ()
    ended = {each: Assignment(to.target) for each, to in moves.items()}
    arrived = tuple(Replica(each, broker) for each, to in moves.items() for broker in to.adding)

    def end(now: Context, left: tuple[TopicPartition, ...]) -> Steps:
        return (
            *_written({each: ended[each] for each in left if ended[each] != moves[each]}),
            DropReassignments(left),
            *_announced(now, left),
        )

    return (
        *((MoveReplicas(arrived, ReplicaState.ONLINE),) if arrived else ()),
        *_parted(context, ended, end, moves),
    )


def _parted(
    context: Context, staying: Assignments, then: AfterParting, moves: Assignments | None = None
) -> Steps:
    """Let all replicas go but those that stay, and `then` go on; the znode still has them all.

    First the brokers hear, under a new leader epoch, of the partition without them. That write
    also keeps the leader from changing the ISR until it has heard. If by then the ISR has become
    such that they are needed, all is as it was before.

    `moves` are these partitions' moves if they are about to end, also if not known so yet.
    """
    if not staying:
        return ()
    before = moves or {each: context.assignment(each) for each in staying}
    elect: list[TopicPartition] = []
    keep: list[TopicPartition] = []
    for each, to in staying.items():
        if each in context.led:
            (keep if _is_led_by(context, each, to) else elect).append(each)
    return (
        AssumeAssignments(staying),
        *_elected(elect, Selector.REASSIGNED),
        *((RaiseLeaderEpochs(tuple(keep)),) if keep else ()),
        Then(lambda now: _let_go(now, before, staying, then, is_end=moves is not None)),
    )


def _let_go(
    context: Context, before: Assignments, staying: Assignments, then: AfterParting, is_end: bool
) -> Steps:
    needed = {
        each: was
        for each, was in before.items()
        if (each in context.led and not _is_led_by(context, each, staying[each]))
        or (is_end and not _has_caught_up(context, each, was))
    }
    left = tuple(each for each in staying if each not in needed)
    leaving = tuple(
        Replica(each, broker)
        for each in left
        for broker in before[each].replicas
        if broker not in staying[each].replicas
    )
    return (
        *((AssumeAssignments(needed), *_told(context, needed)) if needed else ()),
        *((MoveReplicas(leaving, to) for to in _AWAY) if leaving else ()),
        *(then(context, left) if left else ()),
    )


def _is_led_by(context: Context, partition: TopicPartition, staying: Assignment) -> bool:
    """Whether one that stays leads, so that whoever else goes takes nothing away with it."""
    leader = context.led[partition].state.leader
    return leader in staying.replicas and context.is_online(leader, partition)


def _only(assignments: Assignments, partitions: tuple[TopicPartition, ...]) -> Assignments:
    return {each: assignments[each] for each in partitions}


def _elected(partitions: list[TopicPartition], by: Selector) -> Steps:
    return (MovePartitions(tuple(partitions), PartitionState.ONLINE, by),) if partitions else ()


def _written(assignments: Assignments) -> Iterator[Step]:
    by_topic: dict[str, dict[int, Assignment]] = {}
    for each, to in assignments.items():
        by_topic.setdefault(each.topic, {})[each.partition] = to
    for topic, changed in by_topic.items():
        yield SetAssignments(topic, changed)


def _announced(context: Context, ended: tuple[TopicPartition, ...]) -> Steps:
    return (TellMetadata(None, ended), *_deletions_freed(context, ended))


# -- a topic is not deleted while it moves -------------------------------------


def _deletions_held(context: Context, moves: Assignments) -> Steps:
    topics = tuple(dict.fromkeys(e.topic for e in moves if context.is_deleting(e.topic)))
    return (MarkIneligible(topics, MOVING),) if topics else ()


def _deletions_freed(context: Context, ended: tuple[TopicPartition, ...]) -> Steps:
    over = frozenset(ended)
    topics = tuple(
        topic
        for topic in dict.fromkeys(each.topic for each in ended)
        if context.is_deleting(topic) and not is_moving(context, topic, but=over)
    )
    return (MarkEligible(topics),) if topics else ()


def is_moving(context: Context, topic: str, but: Container[TopicPartition] = frozenset()) -> bool:
    """Whether a partition of the topic is being moved, apart from those in `but`."""
    return any(
        context.assignment(each).is_reassigning and each not in but
        for each in context.partitions_of(topic)
    )


# A replica that leaves goes through all of these. Whether its broker did delete it is not waited
# for: the partition is complete without it.
_AWAY: Final = (
    ReplicaState.OFFLINE,
    ReplicaState.DELETION_STARTED,
    ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.NON_EXISTENT,
)
MOVING: Final = "a partition is being moved"
_UNKNOWN: Final = Refusal(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.invalid_replica_assignment, message)
