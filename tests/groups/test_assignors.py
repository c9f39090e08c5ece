"""Each partition goes to one member, evenly and with few moves, whatever they want and had."""

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.groups.assignors.assignors import (
    NOTHING,
    AssignedMember,
    Assignment,
    Assignor,
    assign_range,
    partition_count,
)
from barnabas.groups.assignors.uniform_assignor import assign_uniform

BOTH = pytest.mark.parametrize("assign", [assign_range, assign_uniform])
A, B, C, D = TOPICS = [UUID(int=number) for number in (1, 2, 3, 4)]

counts_of_topics = st.fixed_dictionaries({topic: st.integers(0, 9) for topic in TOPICS})
subscriptions = st.frozensets(st.sampled_from(TOPICS))
partitions = st.frozensets(st.integers(0, 11), max_size=5)
members_like_any = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.builds(
        AssignedMember,
        st.none(),
        subscriptions,
        st.dictionaries(st.sampled_from(TOPICS), partitions.filter(bool)),
    ),
    max_size=8,
)


def alike(
    *member_ids: str, topics: frozenset[UUID] = frozenset({A, B})
) -> dict[str, AssignedMember]:
    return {each: AssignedMember(None, topics) for each in member_ids}


def after(
    members: dict[str, AssignedMember], assigned: dict[str, Assignment]
) -> dict[str, AssignedMember]:
    return {each: m._replace(before=assigned.get(each, {})) for each, m in members.items()}


def moves(before: dict[str, Assignment], now: dict[str, Assignment]) -> int:
    """How many partitions went from one member that is still there to another."""
    return sum(
        len(partitions - now[member_id].get(topic, NOTHING))
        for member_id, share in before.items()
        if member_id in now
        for topic, partitions in share.items()
    )


@BOTH
@given(members=members_like_any, counts=counts_of_topics)
def test_each_partition_goes_to_exactly_one_subscriber(
    assign: Assignor, members: dict[str, AssignedMember], counts: dict[UUID, int]
) -> None:
    assigned = assign(members, counts)
    assert assigned.keys() == members.keys()
    given_out = Counter(
        (topic, partition)
        for share in assigned.values()
        for topic, of_topic in share.items()
        for partition in of_topic
    )
    wanted = {topic for member in members.values() for topic in member.topics}
    assert given_out == Counter(
        (topic, partition) for topic in wanted for partition in range(counts[topic])
    )
    for member_id, share in assigned.items():
        assert share.keys() <= members[member_id].topics
        assert all(share.values())


@given(members=members_like_any, counts=counts_of_topics)
def test_nobody_could_take_a_partition_from_who_has_two_more(
    members: dict[str, AssignedMember], counts: dict[UUID, int]
) -> None:
    assigned = assign_uniform(members, counts)
    loads = {each: partition_count(share) for each, share in assigned.items()}
    for giver, share in assigned.items():
        for topic in share:
            for taker, member in members.items():
                assert topic not in member.topics or loads[giver] - loads[taker] < 2


@given(members=members_like_any, counts=counts_of_topics)
def test_uniform_assignment_stays_as_it_is_while_nothing_changes(
    members: dict[str, AssignedMember], counts: dict[UUID, int]
) -> None:
    assigned = assign_uniform(members, counts)
    assert assign_uniform(after(members, assigned), counts) == assigned


@given(st.integers(1, 12), st.integers(0, 40), st.integers(0, 40))
def test_a_newcomer_to_members_of_one_mind_is_given_its_share_and_nothing_else_moves(
    size: int, of_a: int, of_b: int
) -> None:
    counts = {A: of_a, B: of_b}
    members = alike(*(f"m{number}" for number in range(size)))
    before = assign_uniform(members, counts)
    now = assign_uniform({**after(members, before), **alike("new")}, counts)
    loads = [partition_count(share) for share in now.values()]
    assert max(loads) - min(loads) <= 1
    assert moves(before, now) == partition_count(now["new"])


@given(st.integers(2, 12), st.integers(0, 40))
def test_who_stays_keeps_what_it_had_when_another_leaves(size: int, of_a: int) -> None:
    counts = {A: of_a}
    members = alike(*(f"m{number}" for number in range(size)), topics=frozenset({A}))
    before = assign_uniform(members, counts)
    del members["m0"]
    assert moves(before, assign_uniform(after(members, before), counts)) == 0


def test_range_gives_runs_and_static_members_come_first() -> None:
    members = {
        "a": AssignedMember(None, frozenset({A, B})),
        "b": AssignedMember("second", frozenset({A})),
        "c": AssignedMember("first", frozenset({A, B})),
    }
    assert assign_range(members, {A: 7, B: 2}) == {
        "c": {A: frozenset({0, 1, 2}), B: frozenset({0})},
        "b": {A: frozenset({3, 4})},
        "a": {A: frozenset({5, 6}), B: frozenset({1})},
    }


def test_uniform_evens_out_what_only_some_want() -> None:
    members = {
        "all": AssignedMember(None, frozenset({A, B, C})),
        "few": AssignedMember(None, frozenset({A})),
        "one": AssignedMember(None, frozenset({C})),
    }
    assigned = assign_uniform(members, {A: 4, B: 2, C: 3})
    assert sorted(partition_count(share) for share in assigned.values()) == [3, 3, 3]
    assert assigned["all"][B] == {0, 1}


@BOTH
def test_nobody_gets_nothing(assign: Assignor) -> None:
    assert assign({}, {D: 3}) == {}
