"""What it takes to move partitions and replicas to a state: what to write, whom to tell.

Decisions only: nothing here changes the context. Whoever performs one writes, applies what was
written, and puts the messages of a partition into the batch when its write, if it needs one, is
done. A partition whose `state` another had written meanwhile is read again and decided again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypeAlias

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.controller.context import NO_LEADER, Context, Led, Replica
from barnabas.controller.decide.leader_selectors import Candidates, decide_leader
from barnabas.controller.decide.steps import Refusal, Selector
from barnabas.controller.io.request_batch import LeaderAndIsrTo, Message, MetadataOf, StopReplicaTo
from barnabas.controller.states import (
    PARTITION_FROM,
    REPLICA_FROM,
    PartitionState,
    ReplicaState,
    may_enter,
)
from barnabas.znodes.layout import PartitionState as Leading

Updates: TypeAlias = dict[TopicPartition, tuple[Leading, int]]
Messages: TypeAlias = dict[TopicPartition, list[Message]]


@dataclass(slots=True)
class PartitionMoves:
    """How partitions get to a state; each is in one of `creates`, `updates`, `moved`, `refused`.

    `updates` hold the version that is expected of the znode. Those of `moved` need no write.
    """

    creates: dict[TopicPartition, Leading] = field(default_factory=dict)
    updates: Updates = field(default_factory=dict)
    moved: list[TopicPartition] = field(default_factory=list)
    refused: dict[TopicPartition, Refusal] = field(default_factory=dict)
    unclean: list[TopicPartition] = field(default_factory=list)
    messages: Messages = field(default_factory=dict)


@dataclass(slots=True)
class ReplicaMoves:
    """How replicas get to a state; each is in `moved` or in `refused`.

    One in `moved` whose partition is in `updates` has moved only when that is written.
    """

    updates: Updates = field(default_factory=dict)
    moved: list[Replica] = field(default_factory=list)
    refused: dict[Replica, Refusal] = field(default_factory=dict)
    messages: Messages = field(default_factory=dict)


# -- partitions ----------------------------------------------------------------


def decide_partitions(
    context: Context,
    partitions: Iterable[TopicPartition],
    to: PartitionState,
    by: Selector,
    allows_unclean: Callable[[str], bool],
) -> PartitionMoves:
    """Take partitions to a state; to ONLINE by a first leader, or by an election with `by`.

    `allows_unclean` says of a topic whether OFFLINE may choose a replica that is not in sync.
    """
    moves = PartitionMoves()
    allows_unclean = cache(allows_unclean)
    for partition in partitions:
        state = context.state_of(partition)
        if not may_enter(PARTITION_FROM, state, to):
            moves.refused[partition] = _illegal(state, to)
        elif to is not PartitionState.ONLINE:
            moves.moved.append(partition)
        elif partition not in context:
            moves.refused[partition] = Refusal(ErrorCode.unknown_topic_or_partition)
        else:
            _bring_online(context, partition, by, allows_unclean, moves)
    return moves


def _bring_online(
    context: Context,
    partition: TopicPartition,
    by: Selector,
    allows_unclean: Callable[[str], bool],
    moves: PartitionMoves,
) -> None:
    led = context.led.get(partition)
    if led is not None:
        if by is Selector.OFFLINE and allows_unclean(partition.topic):
            by = Selector.OFFLINE_UNCLEAN
        _elect(context, partition, led, by, moves)
    elif context.state_of(partition) is PartitionState.NEW:
        _elect_first(context, partition, moves)
    else:
        moves.refused[partition] = _NEVER_LED


def _elect_first(context: Context, partition: TopicPartition, moves: PartitionMoves) -> None:
    """A partition begins with all replicas that live in sync, and the first of them leading."""
    replicas = context.assignment(partition).replicas
    alive = tuple(b for b in replicas if context.is_available(b, partition))
    if not alive:
        why = f"no replica is alive (replicas={list(replicas)})"
        moves.refused[partition] = Refusal(ErrorCode.eligible_leaders_not_available, why)
        return
    moves.creates[partition] = Leading(alive[0], LeaderEpoch(0), context.epoch, alive)
    moves.messages[partition] = [LeaderAndIsrTo(alive, partition, is_new=True)]


def _elect(
    context: Context, partition: TopicPartition, led: Led, by: Selector, moves: PartitionMoves
) -> None:
    fenced = _fenced(context, led)
    elected = fenced or decide_leader(by, _candidates(context, partition, led), context.epoch)
    if isinstance(elected, Refusal):
        moves.refused[partition] = elected
        return
    if elected.state is led.state:
        moves.moved.append(partition)
    else:
        moves.updates[partition] = (elected.state, led.version)
    if elected.is_unclean:
        moves.unclean.append(partition)
    moves.messages[partition] = [LeaderAndIsrTo(elected.tell, partition)]


def _candidates(context: Context, partition: TopicPartition, led: Led) -> Candidates:
    assignment = context.assignment(partition)
    brokers = (*assignment.replicas, *led.state.isr, led.state.leader)
    online = {b for b in brokers if context.is_online(b, partition)}
    return Candidates(led.state, assignment, online, context.shutting_down)


def decide_leader_epochs(
    context: Context, partitions: Iterable[TopicPartition], is_new_on: tuple[BrokerId, ...] = ()
) -> PartitionMoves:
    """Give partitions a new leader epoch under the leader they have, and tell all replicas.

    `is_new_on` are the brokers that have no log of it yet, and may make one.
    """
    moves = PartitionMoves()
    for partition in partitions:
        led = context.led.get(partition)
        refusal = _NEVER_LED if led is None else _fenced(context, led)
        if led is None or refusal is not None or partition not in context:
            moves.refused[partition] = refusal or Refusal(ErrorCode.unknown_topic_or_partition)
            continue
        raised = _next(context, led.state, led.state.leader, led.state.isr)
        moves.updates[partition] = (raised, led.version)
        replicas = context.assignment(partition).replicas
        known = tuple(b for b in replicas if b not in is_new_on)
        new = tuple(b for b in replicas if b in is_new_on)
        moves.messages[partition] = [
            LeaderAndIsrTo(known, partition),
            *([LeaderAndIsrTo(new, partition, is_new=True)] if new else ()),
        ]
    return moves


# -- replicas ------------------------------------------------------------------


def decide_replicas(
    context: Context, replicas: Iterable[Replica], to: ReplicaState
) -> ReplicaMoves:
    """Take replicas to a state: one that goes offline leaves the ISR, and does not lead."""
    moves = ReplicaMoves()
    allowed: dict[TopicPartition, list[BrokerId]] = {}
    for replica in replicas:
        refusal = _replica_refusal(context, replica, to)
        if refusal is not None:
            moves.refused[replica] = refusal
        else:
            moves.moved.append(replica)
            allowed.setdefault(replica.topic_partition, []).append(replica.broker_id)
    for partition, brokers in allowed.items():
        if to is ReplicaState.OFFLINE:
            _take_offline(context, partition, brokers, moves)
        else:
            moves.messages[partition] = _told(context, partition, brokers, to)
    return moves


def _replica_refusal(context: Context, replica: Replica, to: ReplicaState) -> Refusal | None:
    state = context.replica_state_of(replica)
    if not may_enter(REPLICA_FROM, state, to):
        return _illegal(state, to)
    led = context.led.get(replica.topic_partition)
    if led is None:
        return None
    if to is ReplicaState.NEW and led.state.leader == replica.broker_id:
        return Refusal(ErrorCode.unknown_server_error, "a replica that leads cannot be new")
    return _fenced(context, led) if to is ReplicaState.OFFLINE else None


def _told(
    context: Context, partition: TopicPartition, brokers: list[BrokerId], to: ReplicaState
) -> list[Message]:
    match to:
        case ReplicaState.NEW if partition in context.led:
            return [LeaderAndIsrTo(tuple(brokers), partition, is_new=True)]
        case ReplicaState.ONLINE if partition in context.led:
            # Those that were new heard of the leader when they became so, or when it was elected.
            known = tuple(b for b in brokers if not _is_new(context, partition, b))
            return [LeaderAndIsrTo(known, partition)] if known else []
        case ReplicaState.DELETION_STARTED:
            return [StopReplicaTo(tuple(brokers), partition, delete=True)]
        case _:
            return []


def _is_new(context: Context, partition: TopicPartition, broker: BrokerId) -> bool:
    return context.replica_state_of(Replica(partition, broker)) is ReplicaState.NEW


def _take_offline(
    context: Context, partition: TopicPartition, brokers: list[BrokerId], moves: ReplicaMoves
) -> None:
    messages: list[Message] = [StopReplicaTo(tuple(brokers), partition)]
    moves.messages[partition] = messages
    led = context.led.get(partition)
    if led is None:
        messages.append(MetadataOf(partition))
        return
    leader, isr = _without(led.state, brokers)
    if (leader, isr) != (led.state.leader, led.state.isr):
        moves.updates[partition] = (_next(context, led.state, leader, isr), led.version)
    # A topic that is only to be deleted later, when it is no longer moved, needs its leaders still.
    if partition.topic not in context.deletion_begun:
        replicas = context.assignment(partition).replicas
        others = tuple(b for b in replicas if b not in brokers)
        messages.append(LeaderAndIsrTo(others, partition))


def _without(state: Leading, brokers: list[BrokerId]) -> tuple[BrokerId, tuple[BrokerId, ...]]:
    """The leader and the ISR when these are gone.

    The last of the ISR stays in it: it alone has all that was acknowledged, and is waited for.
    """
    isr = state.isr
    for broker in brokers:
        isr = tuple(b for b in isr if b != broker) or isr
    return (NO_LEADER if state.leader in brokers else state.leader), isr


# -- of both -------------------------------------------------------------------


def _next(context: Context, state: Leading, leader: BrokerId, isr: tuple[BrokerId, ...]) -> Leading:
    epoch = LeaderEpoch(state.leader_epoch + 1)
    return Leading(leader, epoch, context.epoch, isr, state.recovering)


_NEVER_LED: Final = Refusal(
    ErrorCode.eligible_leaders_not_available, "no leader was ever elected: it has no state"
)


def _fenced(context: Context, led: Led) -> Refusal | None:
    """Refuses to change what a newer controller wrote."""
    if led.state.controller_epoch <= context.epoch:
        return None
    why = f"controller epoch {led.state.controller_epoch} wrote it, ours is {context.epoch}"
    return Refusal(ErrorCode.stale_controller_epoch, why)


def _illegal(state: PartitionState | ReplicaState, to: PartitionState | ReplicaState) -> Refusal:
    return Refusal(ErrorCode.unknown_server_error, f"{state.value} cannot become {to.value}")
