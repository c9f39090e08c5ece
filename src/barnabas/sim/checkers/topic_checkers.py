"""Checks of topics: created ones exist, deleted ones do not, reassigned partitions moved."""

from collections import defaultdict
from collections.abc import Iterator

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import (
    ClientOperation,
    Create,
    Delete,
    Grow,
    OperationHistory,
    OperationOutcome,
    Reassign,
)
from barnabas.sim.checkers.violations import FinalState, Violation, ViolationKind


def check_topics(history: OperationHistory, final: FinalState) -> Iterator[Violation]:
    counts: dict[str, int] = defaultdict(int)
    for end in final.partitions:
        counts[end.at.topic] += 1
    yield from _check_made(history, counts)
    yield from _check_deleted(history, counts)
    yield from _check_moved(history, final)


def _check_made(history: OperationHistory, counts: dict[str, int]) -> Iterator[Violation]:
    """A topic without a delete request has as many partitions as acknowledged."""
    deleted = {delete.topic for _, delete in history.of(Delete)}
    for operation in history.operations:
        asked = operation.asked
        if not isinstance(asked, Create | Grow) or operation.outcome is not OperationOutcome.OK:
            continue
        count = counts.get(asked.topic, 0)
        if count < asked.partitions and asked.topic not in deleted:
            facts = f"{asked.topic} has {count} partitions: {operation}"
            yield Violation(ViolationKind.TOPIC_LOST, facts)


def _check_deleted(history: OperationHistory, counts: dict[str, int]) -> Iterator[Violation]:
    """A deleted topic is gone, unless it was created again."""
    wanted: dict[str, list[ClientOperation]] = defaultdict(list)
    for operation, create in history.of(Create):
        wanted[create.topic].append(operation)
    for operation, delete in history.of(Delete):
        # A creation that had not ended when the deletion began may have happened after it.
        is_last = all(create.ended < operation.began for create in wanted[delete.topic])
        if operation.outcome is OperationOutcome.OK and delete.topic in counts and is_last:
            yield Violation(ViolationKind.TOPIC_BACK, f"{delete.topic}: {operation}")


def _check_moved(history: OperationHistory, final: FinalState) -> Iterator[Violation]:
    """A partition is on the brokers of its last acknowledged reassignment, if none overlapped.

    Topics with a delete request are skipped: the partition may be one of a later topic.
    """
    deleted = {delete.topic for _, delete in history.of(Delete)}
    moves: dict[TopicPartition, list[tuple[ClientOperation, Reassign]]] = defaultdict(list)
    for operation, move in history.of(Reassign):
        moves[move.at].append((operation, move))
    for end in final.partitions:
        if not moves[end.at] or not end.assigned or end.at.topic in deleted:
            continue
        last, move = moves[end.at][-1]
        is_alone = all(other.ended < last.began for other, _ in moves[end.at][:-1])
        is_decided = last.outcome is OperationOutcome.OK and is_alone and move.replicas is not None
        if is_decided and sorted(move.replicas or ()) != sorted(end.assigned):
            yield Violation(ViolationKind.MISPLACED, f"{end.at} is on {end.assigned}: {last}")
