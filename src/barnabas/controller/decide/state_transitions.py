"""State transitions of partitions and replicas: the writes and the messages that each needs.

Nothing here changes the context. The performer writes, applies what was written, and adds a
partition's messages to the request batch once its write, if any, succeeded. A partition whose
`state` somebody else wrote meanwhile is read and decided again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypeAlias

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.controller.context import NO_LEADER, Context, PartitionLeadership, PartitionReplica
from barnabas.controller.decide.leader_selectors import Candidates, decide_leader
from barnabas.controller.decide.steps import (
    ApiError,
    ControlMessage,
    LeaderAndIsrTo,
    MetadataOf,
    StopReplicaTo,
)
from barnabas.controller.states import (
    PARTITION_FROM,
    REPLICA_FROM,
    PartitionState,
    ReplicaState,
    Selector,
    may_enter,
)
from barnabas.znodes.layout import LeaderAndIsr

Updates: TypeAlias = dict[TopicPartition, tuple[LeaderAndIsr, int]]
Messages: TypeAlias = dict[TopicPartition, list[ControlMessage]]


@dataclass(slots=True)
class PartitionMoves:
    """Transitions of partitions; each is in one of `creates`, `updates`, `moved`, `refused`.

    `updates` hold the znode's expected version. Those in `moved` need no write.
    """

    creates: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    updates: Updates = field(default_factory=dict)
    moved: list[TopicPartition] = field(default_factory=list)
    refused: dict[TopicPartition, ApiError] = field(default_factory=dict)
    unclean: list[TopicPartition] = field(default_factory=list)
    messages: Messages = field(default_factory=dict)


@dataclass(slots=True)
class ReplicaMoves:
    """Transitions of replicas; each is in `moved` or in `refused`.

    A replica in `moved` whose partition is in `updates` moves once that is written.
    """

    updates: Updates = field(default_factory=dict)
    moved: list[PartitionReplica] = field(default_factory=list)
    refused: dict[PartitionReplica, ApiError] = field(default_factory=dict)
    messages: Messages = field(default_factory=dict)


# -- partitions ----------------------------------------------------------------


def decide_partitions(
    context: Context,
    partitions: Iterable[TopicPartition],
    to: PartitionState,
    by: Selector,
    allows_unclean: Callable[[str], bool],
) -> PartitionMoves:
    """Move partitions to a state; to ONLINE by a first leader, or by an election with `by`.

    `allows_unclean` returns whether OFFLINE may elect a replica outside a topic's ISRs.
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
            moves.refused[partition] = ApiError(ErrorCode.unknown_topic_or_partition)
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
    leadership = context.leadership.get(partition)
    if leadership is not None:
        if by is Selector.OFFLINE and allows_unclean(partition.topic):
            by = Selector.OFFLINE_UNCLEAN
        _elect(context, partition, leadership, by, moves)
    elif context.state_of(partition) is PartitionState.NEW:
        _elect_first(context, partition, moves)
    else:
        moves.refused[partition] = _NEVER_LED


def _elect_first(context: Context, partition: TopicPartition, moves: PartitionMoves) -> None:
    """Start a partition with all available replicas in the ISR, the first of them leading."""
    replicas = context.assignment(partition).replicas
    alive = tuple(b for b in replicas if context.is_available(b, partition))
    if not alive:
        why = f"no replica is alive (replicas={list(replicas)})"
        moves.refused[partition] = ApiError(ErrorCode.eligible_leaders_not_available, why)
        return
    moves.creates[partition] = LeaderAndIsr(alive[0], LeaderEpoch(0), context.epoch, alive)
    moves.messages[partition] = [LeaderAndIsrTo(alive, partition, is_new=True)]


def _elect(
    context: Context,
    partition: TopicPartition,
    leadership: PartitionLeadership,
    by: Selector,
    moves: PartitionMoves,
) -> None:
    fenced = _fenced(context, leadership)
    elected = fenced or decide_leader(
        by, _candidates(context, partition, leadership), context.epoch
    )
    if isinstance(elected, ApiError):
        moves.refused[partition] = elected
        return
    if elected.state is leadership.state:
        moves.moved.append(partition)
    else:
        moves.updates[partition] = (elected.state, leadership.version)
    if elected.is_unclean:
        moves.unclean.append(partition)
    moves.messages[partition] = [LeaderAndIsrTo(elected.notify, partition)]


def _candidates(
    context: Context, partition: TopicPartition, leadership: PartitionLeadership
) -> Candidates:
    assignment = context.assignment(partition)
    brokers = (*assignment.replicas, *leadership.state.isr, leadership.state.leader)
    online = {b for b in brokers if context.is_online(b, partition)}
    return Candidates(leadership.state, assignment, online, context.shutting_down)


def decide_leader_epochs(
    context: Context, partitions: Iterable[TopicPartition], is_new_on: tuple[BrokerId, ...] = ()
) -> PartitionMoves:
    """Raise the leader epoch under the same leader, and notify all replicas.

    `is_new_on` are the brokers that have no log of the partition yet and may create one.
    """
    moves = PartitionMoves()
    for partition in partitions:
        leadership = context.leadership.get(partition)
        refusal = _NEVER_LED if leadership is None else _fenced(context, leadership)
        if leadership is None or refusal is not None or partition not in context:
            moves.refused[partition] = refusal or ApiError(ErrorCode.unknown_topic_or_partition)
            continue
        raised = _next_epoch(
            context, leadership.state, leadership.state.leader, leadership.state.isr
        )
        moves.updates[partition] = (raised, leadership.version)
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
    context: Context, replicas: Iterable[PartitionReplica], to: ReplicaState
) -> ReplicaMoves:
    """Move replicas to a state; one that goes offline leaves the ISR and stops leading."""
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
            moves.messages[partition] = _messages_for(context, partition, brokers, to)
    return moves


def _replica_refusal(
    context: Context, replica: PartitionReplica, to: ReplicaState
) -> ApiError | None:
    state = context.replica_state_of(replica)
    if not may_enter(REPLICA_FROM, state, to):
        return _illegal(state, to)
    leadership = context.leadership.get(replica.topic_partition)
    if leadership is None:
        return None
    if to is ReplicaState.NEW and leadership.state.leader == replica.broker_id:
        return ApiError(ErrorCode.unknown_server_error, "a replica that leads cannot be new")
    return _fenced(context, leadership) if to is ReplicaState.OFFLINE else None


def _messages_for(
    context: Context, partition: TopicPartition, brokers: list[BrokerId], to: ReplicaState
) -> list[ControlMessage]:
    match to:
        case ReplicaState.NEW if partition in context.leadership:
            return [LeaderAndIsrTo(tuple(brokers), partition, is_new=True)]
        case ReplicaState.ONLINE if partition in context.leadership:
            # New replicas were notified when they became NEW, or when their leader was elected.
            known = tuple(b for b in brokers if not _is_new(context, partition, b))
            return [LeaderAndIsrTo(known, partition)] if known else []
        case ReplicaState.DELETION_STARTED:
            return [StopReplicaTo(tuple(brokers), partition, delete=True)]
        case _:
            return []


def _is_new(context: Context, partition: TopicPartition, broker: BrokerId) -> bool:
    return context.replica_state_of(PartitionReplica(partition, broker)) is ReplicaState.NEW


def _take_offline(
    context: Context, partition: TopicPartition, brokers: list[BrokerId], moves: ReplicaMoves
) -> None:
    messages: list[ControlMessage] = [StopReplicaTo(tuple(brokers), partition)]
    moves.messages[partition] = messages
    leadership = context.leadership.get(partition)
    if leadership is None:
        messages.append(MetadataOf(partition))
        return
    leader, isr = _without(leadership.state, brokers)
    if (leader, isr) != (leadership.state.leader, leadership.state.isr):
        moves.updates[partition] = (
            _next_epoch(context, leadership.state, leader, isr),
            leadership.version,
        )
    # A topic whose deletion waits for a reassignment still needs its leaders.
    if partition.topic not in context.deletion_begun:
        replicas = context.assignment(partition).replicas
        others = tuple(b for b in replicas if b not in brokers)
        messages.append(LeaderAndIsrTo(others, partition))


def _without(state: LeaderAndIsr, brokers: list[BrokerId]) -> tuple[BrokerId, tuple[BrokerId, ...]]:
    """The leader and the ISR without these brokers.

    The last member stays in the ISR: it alone has every acknowledged record, so the partition
    waits for it.
    """
    isr = state.isr
    for broker in brokers:
        isr = tuple(b for b in isr if b != broker) or isr
    return (NO_LEADER if state.leader in brokers else state.leader), isr


# -- of both -------------------------------------------------------------------


def _next_epoch(
    context: Context, state: LeaderAndIsr, leader: BrokerId, isr: tuple[BrokerId, ...]
) -> LeaderAndIsr:
    epoch = LeaderEpoch(state.leader_epoch + 1)
    return LeaderAndIsr(leader, epoch, context.epoch, isr, state.recovering)


_NEVER_LED: Final = ApiError(ErrorCode.eligible_leaders_not_available, "no leader was ever elected")


def _fenced(context: Context, leadership: PartitionLeadership) -> ApiError | None:
    """The error for a state that a newer controller wrote, or None."""
    if leadership.state.controller_epoch <= context.epoch:
        return None
    why = f"controller epoch {leadership.state.controller_epoch} wrote it, ours is {context.epoch}"
    return ApiError(ErrorCode.stale_controller_epoch, why)


def _illegal(state: PartitionState | ReplicaState, to: PartitionState | ReplicaState) -> ApiError:
    return ApiError(ErrorCode.unknown_server_error, f"{state.value} cannot become {to.value}")
