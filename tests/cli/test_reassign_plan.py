"""Plans of who holds what: read, written, and proposed with as little to copy as balance needs."""

import json
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.reassign.reassign_plan import (
    Partition,
    Plan,
    format_plan,
    moved,
    parse_partitions,
    parse_plan,
    propose,
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Partitions of one or two topics, each topic with its own number of replicas."""
    brokers = range(draw(st.integers(3, 7)))
    plan: Plan = {}
    for topic in ("a", "b")[: draw(st.integers(1, 2))]:
        copies = draw(st.integers(1, 3))
        for number in range(draw(st.integers(1, 8))):
            plan[Partition(topic, number)] = draw(st.permutations(brokers))[:copies]
    return plan


@given(plans())
def test_a_plan_is_read_back_as_it_was_written(plan: Plan) -> None:
    assert parse_plan(format_plan(plan), "plan") == plan


def test_a_plan_of_kafkas_own_tool_is_understood() -> None:
    text = (
        '{"version":1,"partitions":[{"topic":"orders","partition":1,'
        '"replicas":[2,0],"log_dirs":["any","any"]}]}'
    )
    assert parse_plan(text, "plan") == {Partition("orders", 1): [2, 0]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "plan: not JSON"),
        ("[]", "expected"),
        ('{"version": 2, "partitions": []}', "expected"),
        ('{"version": 1, "partitions": []}', "no partitions in it"),
        ('{"version": 1, "partitions": [{"topic": "a"}]}', "entry 1 needs"),
        ('{"version": 1, "partitions": [{"topic":"a","partition":0,"replicas":[]}]}', "no replica"),
        (
            '{"version": 1, "partitions": [{"topic":"a","partition":0,"replicas":[1,1]}]}',
            "a-0 names a broker twice",
        ),
        (
            '{"version": 1, "partitions": [{"topic":"a","partition":0,"replicas":[1],'
            '"log_dirs":["/d"]}]}',
            "log_dirs",
        ),
    ],
)
def test_what_is_no_plan_is_refused_with_the_place(text: str, told: str) -> None:
    with pytest.raises(CommandFailed, match=told):
        parse_plan(text, "plan")


def test_partitions_can_be_given_one_by_one() -> None:
    assert parse_partitions(["orders:0=1,2", "a.b_c-d:10=3"]) == {
        Partition("orders", 0): [1, 2],
        Partition("a.b_c-d", 10): [3],
    }


@pytest.mark.parametrize("text", ["orders", "orders:0", "orders:x=1", "orders:0=", "orders:0=1,"])
def test_a_partition_that_cannot_be_meant_gets_an_example(text: str) -> None:
    with pytest.raises(CommandFailed, match="as in orders:0=1,2"):
        parse_partitions([text])


def test_a_partition_given_twice_is_refused() -> None:
    with pytest.raises(CommandFailed, match="a-0 is there twice"):
        parse_partitions(["a:0=1", "a:0=2"])


# Proposals


def spread(counts: Counter[int]) -> int:
    return max(counts.values()) - min(counts.values())


def loads(plan: Plan, brokers: range) -> Counter[int]:
    counts = Counter(dict.fromkeys(brokers, 0))
    counts.update(broker for replicas in plan.values() for broker in replicas)
    return counts


@given(plans(), st.integers(3, 7))
def test_a_proposal_keeps_replication_and_spreads_evenly(current: Plan, count: int) -> None:
    brokers = range(count)
    plan = propose(current, dict.fromkeys(brokers))
    assert list(plan) == sorted(current)
    for partition, replicas in plan.items():
        assert len(set(replicas)) == len(replicas) == len(current[partition])
        assert all(broker in brokers for broker in replicas)
    assert spread(loads(plan, brokers)) <= 1


@given(plans(), st.integers(3, 7))
def test_what_was_proposed_once_needs_no_change(current: Plan, count: int) -> None:
    racks = dict.fromkeys(range(count))
    plan = propose(current, racks)
    assert propose(plan, racks) == plan


# The replica on broker 3 can only go to 0 or 1, and so one more has to leave these.
DISPLACING = {**{Partition("a", n): [0, 1] for n in range(8)}, Partition("b", 0): [2, 3]}


@given(plans(), st.integers(3, 7))
@example(DISPLACING, 3)
def test_no_more_is_copied_than_evenness_asks_for(current: Plan, count: int) -> None:
    """Copied is what lay elsewhere, what that displaces, and what lies above the even share."""
    brokers = range(count)
    plan = propose(current, dict.fromkeys(brokers))
    here = loads({p: [b for b in r if b in brokers] for p, r in current.items()}, brokers)
    total = sum(map(len, current.values()))
    elsewhere = total - sum(here.values())
    share = -(-total // count)
    above = sum(max(0, load - total // count) for load in here.values())
    assert moved(current, plan) >= max(elsewhere, sum(max(0, n - share) for n in here.values()))
    assert moved(current, plan) <= 2 * elsewhere + above


@given(plans(), st.integers(3, 6), st.integers(1, 3))
def test_replicas_are_on_different_racks_if_there_are_enough(
    current: Plan, per_rack: int, racks: int
) -> None:
    rack_of: dict[int, str | None] = {
        broker: f"rack-{broker % racks}" for broker in range(per_rack * racks)
    }
    for replicas in propose(current, rack_of).values():
        counts = Counter(rack_of[broker] for broker in replicas)
        assert max(counts.values()) <= -(-len(replicas) // racks)


def test_a_new_broker_gets_its_share_and_nothing_else_is_moved() -> None:
    current = {Partition("t", n): [n % 2, (n + 1) % 2] for n in range(6)}
    plan = propose(current, dict.fromkeys(range(3)))
    assert loads(plan, range(3)) == {0: 4, 1: 4, 2: 4}
    assert moved(current, plan) == 4
    assert spread(Counter(replicas[0] for replicas in plan.values())) <= 1


def test_leaders_are_spread_without_copying_anything() -> None:
    current = {Partition("t", n): [0, 1, 2] for n in range(6)}
    plan = propose(current, dict.fromkeys(range(3)))
    assert moved(current, plan) == 0
    assert Counter(replicas[0] for replicas in plan.values()) == {0: 2, 1: 2, 2: 2}


def test_more_replicas_than_brokers_cannot_be_proposed() -> None:
    with pytest.raises(CommandFailed, match="t-0 has 2 replicas, and there are 1 brokers"):
        propose({Partition("t", 0): [0, 1]}, {0: None})


def test_the_written_plan_is_kafkas_json() -> None:
    text = format_plan({Partition("b", 1): [2, 0], Partition("a", 0): [1]})
    assert json.loads(text) == {
        "version": 1,
        "partitions": [
            {"topic": "a", "partition": 0, "replicas": [1]},
            {"topic": "b", "partition": 1, "replicas": [2, 0]},
        ],
    }
