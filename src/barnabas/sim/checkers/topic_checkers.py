"""Checks topics: those made are there, those deleted are not, partitions are where they belong."""

from collections import defaultdict
from collections.abc import Iterator

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import (
    Create,
    Delete,
    Grow,
    History,
    Operation,
    Outcome,
    Reassign,
)
from barnabas.sim.checkers.violations import Final, Kind, Violation


def check_topics(history: History, final: Final) -> Iterator[Violation]:
    counts: dict[str, int] = defaultdict(int)
    for end in final.partitions:
        counts[end.at.topic] += 1
    yield from _check_made(history, counts)
    yield from _check_deleted(history, counts)
    yield from _check_moved(history, final)


def _check_made(history: History, counts: dict[str, int]) -> Iterator[Violation]:
    """A topic that nobody wanted deleted has as many partitions as someone was told."""
    deleted = {delete.topic for _, delete in history.of(Delete)}
    for operation in history.operations:
        asked = operation.asked
        if not isinstance(asked, Create | Grow) or operation.outcome is not Outcome.OK:
            continue
        count = counts.get(asked.topic, 0)
        if count < asked.partitions and asked.topic not in deleted:
            facts = f"{asked.topic} has {count} partitions: {operation}"
            yield Violation(Kind.TOPIC_LOST, facts)


def _check_deleted(history: History, counts: dict[str, int]) -> Iterator[Violation]:
    """A topic that was deleted is gone, unless someone wanted it again."""
    wanted: dict[str, list[Operation]] = defaultdict(list)
    for operation, create in history.of(Create):
        wanted[create.topic].append(operation)
    for operation, delete in history.of(Delete):
        # A creation that had not ended when the deletion began may have come after it.
        is_last = all(create.ended < operation.began for create in wanted[delete.topic])
        if operation.outcome is Outcome.OK and delete.topic in counts and is_last:
            yield Violation(Kind.TOPIC_BACK, f"{delete.topic}: {operation}")


def _check_moved(history: History, final: Final) -> Iterator[Violation]:
    """A partition is on the brokers of the last move that was agreed to, if no other was asked.

    One of a topic that someone wanted deleted may be another's of that name.
    """
    deleted = {delete.topic for _, delete in history.of(Delete)}
    moves: dict[TopicPartition, list[tuple[Operation, Reassign]]] = defaultdict(list)
    for operation, move in history.of(Reassign):
        moves[move.at].append((operation, move))
    for end in final.partitions:
        if not moves[end.at] or not end.assigned or end.at.topic in deleted:
            continue
        last, move = moves[end.at][-1]
        is_alone = all(other.ended < last.began for other, _ in moves[end.at][:-1])
        is_decided = last.outcome is Outcome.OK and is_alone and move.replicas is not None
        if is_decided and sorted(move.replicas or ()) != sorted(end.assigned):
            yield Violation(Kind.MISPLACED, f"{end.at} is on {end.assigned}: {last}")
