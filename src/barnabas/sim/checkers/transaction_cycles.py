"""Dependencies between transactions, and their cycles, after Adya and Jepsen's Elle.

*write-write*: one wrote the record before the other's in a partition. *write-read*: one read what
the other wrote. *read-write*: one read up to just before what the other wrote. Kafka's isolation
is read committed: a cycle of write-read dependencies alone is never allowed, while transactions of
different producers may interleave their writes. Those of one transactional id follow each other,
so among these no cycle of any kind is allowed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from itertools import pairwise

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import NO_OFFSET, OperationHistory, Sent
from barnabas.sim.checkers.transaction_operations import (
    OUTSIDE,
    Begin,
    CommittedPoll,
    CommittedPolled,
    TransactionalSend,
)
from barnabas.sim.checkers.violations import Violation, ViolationKind

Graph = dict[int, dict[int, str]]


class Dependency(Enum):
    WRITE_WRITE = "ww"
    WRITE_READ = "wr"
    READ_WRITE = "rw"


ALL_KINDS = tuple(Dependency)


def check_cycles(history: OperationHistory, writers: Mapping[int, int]) -> Iterator[Violation]:
    """Cycles that read committed does not allow; `writers` has the transaction of each value."""
    if cycle := find_cycle(dependencies(history, writers, (Dependency.WRITE_READ,))):
        yield Violation(ViolationKind.CYCLE, describe(cycle))
    graph = dependencies(history, writers, ALL_KINDS)
    by_id: dict[str, list[int]] = defaultdict(list)
    for operation, begin in history.of(Begin):
        by_id[begin.transactional_id].append(operation.number)
    for numbers in by_id.values():
        for before, after in pairwise(numbers):
            graph[before].setdefault(after, "order of one producer")
    for numbers in by_id.values():
        own = set(numbers)
        among = {a: {b: why for b, why in graph[a].items() if b in own} for a in numbers}
        if cycle := find_cycle(among):
            yield Violation(ViolationKind.CYCLE, describe(cycle))


def dependencies(
    history: OperationHistory, writers: Mapping[int, int], kinds: Collection[Dependency]
) -> Graph:
    """The dependencies of these kinds; an edge leads to the transaction that comes later."""
    graph: Graph = defaultdict(dict)
    if Dependency.WRITE_WRITE in kinds:
        for at, log in _written(history).items():
            for (_, before), (offset, after) in pairwise(sorted(log.items())):
                _add(graph, before, after, f"ww {at} offset {offset}")
    if Dependency.WRITE_READ in kinds:
        for reader, at, offset, value in _read(history):
            if value in writers:
                _add(graph, writers[value], reader, f"wr {at} offset {offset}")
    if Dependency.READ_WRITE in kinds:
        logs = _written(history)
        for operation, poll in history.of(CommittedPoll):
            if poll.transaction == OUTSIDE or not isinstance(operation.got, CommittedPolled):
                continue
            later = [n for n in logs.get(poll.at, {}) if n >= operation.got.next_position]
            if later:
                why = f"rw {poll.at} offset {min(later)}"
                _add(graph, poll.transaction, logs[poll.at][min(later)], why)
    return graph


def _add(graph: Graph, before: int, after: int, why: str) -> None:
    if before != after:
        graph[before].setdefault(after, why)


def _written(history: OperationHistory) -> dict[TopicPartition, dict[int, int]]:
    """The transaction of each offset that was reported to a producer."""
    found: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
    for operation, send in history.of(TransactionalSend):
        if isinstance(operation.got, Sent) and operation.got.base_offset != NO_OFFSET:
            for offset in range(len(send.values)):
                found[send.at][operation.got.base_offset + offset] = send.transaction
    return found


def _read(history: OperationHistory) -> Iterator[tuple[int, TopicPartition, int, int]]:
    for operation, poll in history.of(CommittedPoll):
        if poll.transaction != OUTSIDE and isinstance(operation.got, CommittedPolled):
            for offset, value in operation.got.records:
                yield poll.transaction, poll.at, offset, value


def find_cycle(graph: Mapping[int, Mapping[int, str]]) -> list[tuple[int, str, int]]:
    """The edges of one cycle, or nothing."""
    done: set[int] = set()
    for start in graph:
        path: list[int] = [start]
        left = [iter(graph.get(start, ()))]
        while path:
            after = next(left[-1], None)
            if after is None:
                done.add(path.pop())
                left.pop()
            elif after in path:
                around = [*path[path.index(after) :], after]
                return [(a, graph[a][b], b) for a, b in pairwise(around)]
            elif after not in done:
                path.append(after)
                left.append(iter(graph.get(after, ())))
    return []


def describe(cycle: list[tuple[int, str, int]]) -> str:
    return ", ".join(f"{before} -> {after} ({why})" for before, why, after in cycle)
