"""Checks of consumer groups: ownership, committed offsets, and records skipped."""

import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import (
    COMPACTED,
    FADING,
    NO_OFFSET,
    ClientOperation,
    Commit,
    Delete,
    Hold,
    OperationHistory,
    OperationOutcome,
    Own,
    Owned,
    Poll,
    Polled,
    Recall,
    Recalled,
)
from barnabas.sim.checkers.violations import Violation, ViolationKind

_Where = tuple[str, TopicPartition]  # group and partition
_Held = tuple[TopicPartition, uuid.UUID]  # and the topic's id


@dataclass(order=True, slots=True)
class _Span:
    """A period in which a member certainly owned a partition."""

    since: float
    until: float
    member: str


def check_groups(history: OperationHistory) -> Iterator[Violation]:
    yield from _check_owners(history)
    yield from _check_holders(history)
    yield from _check_commits(history)
    yield from _check_coverage(history)


def _check_owners(history: OperationHistory) -> Iterator[Violation]:
    """Generations only increase, and in each a partition has one owner."""
    owners: dict[tuple[str, int, TopicPartition], str] = {}
    groups: dict[str, list[tuple[ClientOperation, Owned]]] = defaultdict(list)
    for operation, own in history.of(Own):
        if not isinstance(operation.got, Owned):
            continue
        groups[own.group].append((operation, operation.got))
        for at in operation.got.partitions:
            key = (own.group, operation.got.generation, at)
            other = owners.setdefault(key, operation.got.member)
            if other != operation.got.member:
                facts = f"{at} by {other} and {operation.got.member}: {operation}"
                yield Violation(ViolationKind.OWNED_TWICE, facts)
    for told in groups.values():
        yield from _check_generations(told)


def _check_generations(told: list[tuple[ClientOperation, Owned]]) -> Iterator[Violation]:
    """A member that joins after another got a generation does not get an older one."""
    by_end = sorted(told, key=lambda each: each[0].ended)
    highest, done = -1, 0
    for operation, owned in told:
        while done < len(by_end) and by_end[done][0].ended < operation.began:
            highest = max(highest, by_end[done][1].generation)
            done += 1
        if owned.generation < highest:
            facts = f"{owned.generation} after {highest}: {operation}"
            yield Violation(ViolationKind.GENERATION_WENT_BACK, facts)


def _check_holders(history: OperationHistory) -> Iterator[Violation]:
    """No two members own a partition at the same time, and a member's epoch only increases.

    Consumer group members keep partitions across epochs, so ownership is checked by time: a
    member owns what it claims in an accepted heartbeat, and between two such heartbeats.
    """
    before: dict[str, tuple[int, list[_Held]]] = {}
    spans: dict[tuple[str, _Held], list[_Span]] = defaultdict(list)
    for operation, hold in history.of(Hold):
        if not isinstance(operation.got, Owned):
            continue
        epoch, had = before.get(hold.member, (0, []))
        if operation.got.generation < epoch:
            facts = f"{operation.got.generation} after {epoch}: {operation}"
            yield Violation(ViolationKind.GENERATION_WENT_BACK, facts)
        holds = list(zip(hold.partitions, hold.topic_ids, strict=True))
        before[hold.member] = operation.got.generation, holds
        for held in holds:
            own = [each for each in spans[hold.group, held] if each.member == hold.member]
            if held in had and own:
                own[-1].until = operation.began
            else:
                span = _Span(operation.ended, operation.ended, hold.member)
                spans[hold.group, held].append(span)
    for (_, (at, _)), found in spans.items():
        found.sort()
        for one, two in combinations(found, 2):
            if two.since < one.until and one.member != two.member:
                yield Violation(ViolationKind.OWNED_TWICE, f"{at}: {one} and {two}")


def _check_commits(history: OperationHistory) -> Iterator[Violation]:
    """A group's offsets only increase, so a fetched offset is no less than any acknowledged."""
    commits: dict[_Where, list[tuple[ClientOperation, int]]] = defaultdict(list)
    for operation, commit in history.of(Commit):
        for at, offset in commit.offsets:
            commits[commit.group, at].append((operation, offset))
    deleted = {delete.topic for _, delete in history.of(Delete)}
    for operation, recall in history.of(Recall):
        if not isinstance(operation.got, Recalled):
            continue
        for at, offset in operation.got.offsets:
            if at.topic in deleted:
                continue
            known = commits[recall.group, at]
            yield from _check_recalled(operation, at, offset, known)


def _check_recalled(
    recall: ClientOperation,
    at: TopicPartition,
    offset: int,
    known: list[tuple[ClientOperation, int]],
) -> Iterator[Violation]:
    promised = [
        committed
        for commit, committed in known
        if commit.outcome is OperationOutcome.OK and commit.ended < recall.began
    ]
    if promised and offset < max(promised):
        facts = f"{at} is at {offset}, but {max(promised)} was committed: {recall}"
        yield Violation(ViolationKind.COMMIT_WENT_BACK, facts)
    possible = [
        committed
        for commit, committed in known
        if commit.outcome is not OperationOutcome.FAILED and commit.began < recall.ended
    ]
    if offset not in (NO_OFFSET, *possible):
        yield Violation(ViolationKind.COMMIT_INVENTED, f"{at} is at {offset}: {recall}")


def _check_coverage(history: OperationHistory) -> Iterator[Violation]:
    """Some member has read every record below a committed offset, unless it may be deleted."""
    seen: dict[_Where, set[int]] = defaultdict(set)
    for operation, poll in history.of(Poll):
        if poll.group and isinstance(operation.got, Polled):
            seen[poll.group, poll.at].update(offset for offset, _ in operation.got.records)
    unsure = {COMPACTED, FADING, *(delete.topic for _, delete in history.of(Delete))}
    ends: dict[_Where, int] = defaultdict(int)
    for operation, commit in history.of(Commit):
        for at, offset in commit.offsets:
            if operation.outcome is OperationOutcome.OK and at.topic not in unsure:
                ends[commit.group, at] = max(ends[commit.group, at], offset)
    for (group, at), end in ends.items():
        missed = [offset for offset in range(end) if offset not in seen[group, at]]
        if missed:
            facts = f"{group} committed {end} of {at}, but never read {missed[:5]}"
            yield Violation(ViolationKind.GROUP_SKIPPED, facts)
