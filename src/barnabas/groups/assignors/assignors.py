"""Server-side assignors: which member of a consumer group gets which partitions.

An assignor is a pure function of the members (their topics and former targets) and of the
partition counts. Every partition of a topic goes to exactly one of the topic's subscribers.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

Assignment: TypeAlias = Mapping[UUID, frozenset[int]]  # every topic in it has partitions
Assigned: TypeAlias = dict[str, Assignment]  # by member, including those without partitions

NOTHING: Final[frozenset[int]] = frozenset()
EMPTY: Final[Assignment] = {}


class AssignedMember(NamedTuple):
    """A member to assign partitions to; `topics` holds only topics that exist."""

    instance_id: str | None
    topics: frozenset[UUID]
    before: Assignment = EMPTY


Members: TypeAlias = Mapping[str, AssignedMember]
Counts: TypeAlias = Mapping[UUID, int]
Assignor: TypeAlias = Callable[[Members, Counts], Assigned]


def partition_count(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def subscribers_of(members: Members, order: Iterable[str]) -> dict[UUID, list[str]]:
    """The subscribers of each topic, in order; members with equal subscriptions are read once."""
    alike: dict[frozenset[UUID], list[tuple[int, str]]] = {}
    for place, member_id in enumerate(order):
        alike.setdefault(members[member_id].topics, []).append((place, member_id))
    wanting: dict[UUID, list[list[tuple[int, str]]]] = {}
    for topics, of_one_mind in alike.items():
        for topic in topics:
            wanting.setdefault(topic, []).append(of_one_mind)
    return {topic: [each for _, each in sorted(chain(*of))] for topic, of in wanting.items()}


def assign_range(members: Members, counts: Counts) -> Assigned:
    """A range of each topic for each subscriber, ordered by instance id and member id.

    Members that subscribe to the same topics get the same range of each, so topics with equal
    partition counts are co-partitioned.
    """
    order = sorted(members, key=lambda each: _range_order(each, members[each]))
    shares: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in order}
    for topic, wanting in subscribers_of(members, order).items():
        length, longer = divmod(counts[topic], len(wanting))
        begin = 0
        for place, member_id in enumerate(wanting):
            end = begin + length + (place < longer)
            if begin == end:
                break
            shares[member_id][topic] = frozenset(range(begin, end))
            begin = end
    return {**shares}


def _range_order(member_id: str, member: AssignedMember) -> tuple[bool, str]:
    """Static members come first: their order outlives their member ids."""
    if member.instance_id is not None:
        return (False, member.instance_id)
    return (True, member_id)
