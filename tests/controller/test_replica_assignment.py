"""Replica assignment of new topics: Kafka's own examples, and properties of any assignment."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import BrokerId
from barnabas.base.randomness import Random
from barnabas.controller.decide.replica_assignment import (
    Racks,
    alternated,
    assign,
    assign_from,
    assign_more,
)


def brokers(*ids: int) -> Racks:
    return {BrokerId(each): None for each in ids}


SIX: Racks = {
    BrokerId(b): rack
    for b, rack in enumerate(["rack1", "rack3", "rack3", "rack2", "rack2", "rack1"])
}


def test_without_racks_it_is_the_example_of_kafkas_documentation() -> None:
    assigned = assign_from(brokers(0, 1, 2, 3, 4), 10, 3, start=0, shift=0)
    assert list(assigned.values()) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_with_racks_it_is_the_example_of_kafkas_documentation() -> None:
    assigned = assign_from(SIX, 7, 3, start=0, shift=0)
    assert list(assigned.values()) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


def test_racks_alternate_in_the_order_of_their_names() -> None:
    racks = {BrokerId(b): f"rack{b // 3 + 1}" for b in range(9)}
    assert alternated(racks) == [0, 3, 6, 1, 4, 7, 2, 5, 8]
    uneven = {BrokerId(0): "a", BrokerId(1): "a", BrokerId(2): "a", BrokerId(3): "b"}
    assert alternated(uneven) == [0, 3, 1, 2]


def test_racks_do_not_count_unless_all_brokers_have_one() -> None:
    some = {**SIX, BrokerId(3): None}
    without = assign_from(brokers(*range(6)), 12, 3, start=2, shift=1)
    assert assign_from(some, 12, 3, start=2, shift=1) == without


def test_added_partitions_continue_where_the_existing_ones_end() -> None:
    five = brokers(0, 1, 2, 3, 4)
    whole = assign_from(five, 10, 3, start=2, shift=2)
    have = {index: whole[index] for index in range(4)}
    assert assign_more(five, have, 6) == {index: whole[index] for index in range(4, 10)}


def test_added_partitions_of_a_topic_whose_first_broker_is_gone_start_at_the_next() -> None:
    assert assign_more(brokers(1, 3, 5), {0: (BrokerId(2),)}, 1) == {1: (BrokerId(5),)}
    assert assign_more(brokers(1, 3, 5), {0: (BrokerId(9),)}, 1) == {1: (BrokerId(3),)}


def test_a_seed_gives_the_same_assignment_again() -> None:
    five = brokers(0, 1, 2, 3, 4)
    assert assign(five, 20, 3, Random(7)) == assign(five, 20, 3, Random(7))
    firsts = {assign(five, 1, 3, Random(seed))[0] for seed in range(40)}
    assert len(firsts) > 5, "topics of one partition do not all go to the same brokers"


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Racks, int, int, int]:
    ids = draw(st.lists(st.integers(0, 99), min_size=1, max_size=12, unique=True))
    names = st.sampled_from("abcd") if draw(st.booleans()) else st.none()
    racks: Racks = {BrokerId(each): draw(names) for each in ids}
    factor = draw(st.integers(1, len(ids)))
    return racks, draw(st.integers(1, 60)), factor, draw(st.integers(0, 2**32))


@given(clusters())
def test_every_partition_has_its_replicas_on_distinct_brokers(
    cluster: tuple[Racks, int, int, int],
) -> None:
    racks, partitions, factor, seed = cluster
    assigned = assign(racks, partitions, factor, Random(seed))
    assert list(assigned) == list(range(partitions))
    for replicas in assigned.values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(racks)


@given(clusters())
def test_leaders_are_spread_evenly(cluster: tuple[Racks, int, int, int]) -> None:
    racks, partitions, factor, seed = cluster
    leaders = Counter(each[0] for each in assign(racks, partitions, factor, Random(seed)).values())
    counts = [leaders[broker] for broker in racks]
    assert max(counts) - min(counts) <= 1


@given(clusters())
def test_full_rounds_spread_replicas_evenly_where_racks_are_equal(
    cluster: tuple[Racks, int, int, int],
) -> None:
    racks, rounds, factor, seed = cluster
    sizes = Counter(racks.values())
    if None not in sizes and len(set(sizes.values())) > 1:
        return
    if None not in sizes and factor != len(sizes):
        return
    assigned = assign(racks, rounds * len(racks), factor, Random(seed))
    held = Counter(broker for replicas in assigned.values() for broker in replicas)
    assert {held[broker] for broker in racks} == {rounds * factor}


@given(clusters())
def test_no_rack_has_two_replicas_before_each_has_one(cluster: tuple[Racks, int, int, int]) -> None:
    racks, partitions, factor, seed = cluster
    if None in racks.values():
        return
    there = len(set(racks.values()))
    for replicas in assign(racks, partitions, factor, Random(seed)).values():
        assert len({racks[broker] for broker in replicas}) == min(factor, there)


def test_ten_thousand_partitions_are_assigned_quickly() -> None:
    assigned = assign(brokers(*range(30)), 10_000, 3, Random(1))
    held = Counter(broker for replicas in assigned.values() for broker in replicas)
    assert max(held.values()) - min(held.values()) <= 3
