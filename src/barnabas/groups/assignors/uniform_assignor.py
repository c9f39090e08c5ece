"""The uniform assignor: equal shares, and as few moves as equal shares allow.

Where all members subscribe to the same topics, shares differ by one at most. Otherwise no member
has two partitions more than another one that could get one of them.
"""

import heapq
from collections.abc import Iterator
from uuid import UUID

from barnabas.groups.assignors.assignors import (
    Assigned,
    Assignment,
    Counts,
    Members,
    subscribers_of,
)

_Shares = dict[str, dict[UUID, set[int]]]


def assign_uniform(members: Members, counts: Counts) -> Assigned:
    if not members:
        return {}
    shares, loads = _kept(members, counts)
    topics = next(iter(members.values())).topics
    if all(member.topics is topics or member.topics == topics for member in members.values()):
        _level(shares, loads, counts, topics)
    else:
        _spread(members, shares, loads, counts)
        _balance(members, shares, loads)
    return {member_id: _frozen(share) for member_id, share in shares.items()}


def _frozen(share: dict[UUID, set[int]]) -> Assignment:
    return {topic: frozenset(partitions) for topic, partitions in share.items() if partitions}


def _kept(members: Members, counts: Counts) -> tuple[_Shares, dict[str, int]]:
    """The former partitions that each member keeps: they exist, it wants them, none is taken."""
    taken: dict[UUID, set[int]] = {topic: set() for topic in counts}
    all_of = {topic: set(range(count)) for topic, count in counts.items()}
    shares: _Shares = {}
    for member_id in sorted(members):
        member = members[member_id]
        share = shares[member_id] = {}
        for topic, partitions in member.before.items():
            if topic in member.topics:
                share[topic] = (all_of[topic] & partitions) - taken[topic]
                taken[topic] |= share[topic]
    return shares, {each: sum(map(len, share.values())) for each, share in shares.items()}


def _unassigned(shares: _Shares, counts: Counts, topics: frozenset[UUID]) -> dict[UUID, list[int]]:
    """In the order of topics and partitions."""
    left = {topic: set(range(counts[topic])) for topic in sorted(topics, key=lambda each: each.int)}
    for share in shares.values():
        for topic, partitions in share.items():
            left[topic] -= partitions
    return {topic: sorted(partitions) for topic, partitions in left.items()}


# -- all want the same ----------------------------------------------------------------------------


def _level(shares: _Shares, loads: dict[str, int], counts: Counts, topics: frozenset[UUID]) -> None:
    """Trim members above their share, then fill the others; the largest may keep one more."""
    quota, extra = divmod(sum(counts[topic] for topic in topics), len(shares))
    quotas = {}
    for place, member_id in enumerate(sorted(shares, key=lambda each: -loads[each])):
        quotas[member_id] = quota + (place < extra)
        _trim(shares[member_id], loads[member_id] - quotas[member_id])
    free = _each(_unassigned(shares, counts, topics))
    for member_id, share in shares.items():
        for _ in range(quotas[member_id] - loads[member_id]):
            topic, partition = next(free)
            share.setdefault(topic, set()).add(partition)


def _trim(share: dict[UUID, set[int]], surplus: int) -> None:
    """Remove the highest partitions of its largest topic until it has its share."""
    while surplus > 0:
        fullest = max(share.values(), key=len)
        fullest.remove(max(fullest))
        surplus -= 1


def _each(partitions: dict[UUID, list[int]]) -> Iterator[tuple[UUID, int]]:
    return ((topic, partition) for topic, of_topic in partitions.items() for partition in of_topic)


# -- each wants its own ---------------------------------------------------------------------------


def _subscribers(members: Members) -> dict[UUID, list[str]]:
    """Topics with few subscribers come first: later topics even out the shares."""
    subscribers = subscribers_of(members, sorted(members))
    order = sorted(subscribers, key=lambda topic: (len(subscribers[topic]), topic.int))
    return {topic: subscribers[topic] for topic in order}


def _spread(members: Members, shares: _Shares, loads: dict[str, int], counts: Counts) -> None:
    """Give each unassigned partition to the subscriber with the fewest."""
    subscribers = _subscribers(members)
    free = _unassigned(shares, counts, frozenset(subscribers))
    for topic, wanting in subscribers.items():
        if not free[topic]:
            continue
        heap = [(loads[member_id], member_id) for member_id in wanting]
        heapq.heapify(heap)
        for partition in free[topic]:
            load, member_id = heap[0]
            shares[member_id].setdefault(topic, set()).add(partition)
            loads[member_id] = load + 1
            heapq.heapreplace(heap, (load + 1, member_id))


def _balance(members: Members, shares: _Shares, loads: dict[str, int]) -> None:
    """Move partitions to members with at least two fewer, until no move improves the balance.

    Each move makes the sum of the squares of all shares smaller, so this ends.
    """
    subscribers = _subscribers(members)
    moved = True
    while moved:
        moved = False
        for topic, wanting in subscribers.items():
            moved |= _balance_topic(topic, wanting, shares, loads)


def _balance_topic(topic: UUID, wanting: list[str], shares: _Shares, loads: dict[str, int]) -> bool:
    """Balance one topic among its subscribers; returns whether anything moved."""
    least = [(loads[each], each) for each in wanting]
    most = [(-loads[each], each) for each in wanting if shares[each].get(topic)]
    heapq.heapify(least)
    heapq.heapify(most)
    moved = False
    while most:
        giver, taker = most[0][1], least[0][1]
        if loads[giver] + most[0][0]:
            heapq.heapreplace(most, (-loads[giver], giver))
        elif loads[taker] - least[0][0]:
            heapq.heapreplace(least, (loads[taker], taker))
        elif loads[giver] - loads[taker] < 2:
            break
        else:
            _move(topic, shares[giver], shares[taker])
            loads[giver] -= 1
            loads[taker] += 1
            moved = True
            if not shares[giver][topic]:
                heapq.heappop(most)
    return moved


def _move(topic: UUID, giver: dict[UUID, set[int]], taker: dict[UUID, set[int]]) -> None:
    partition = max(giver[topic])
    giver[topic].remove(partition)
    taker.setdefault(topic, set()).add(partition)
