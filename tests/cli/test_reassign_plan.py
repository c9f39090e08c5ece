"""Reassignment plans: parsed, written, and proposed with minimal movement."""

import json
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas.base.ids import TopicPartition
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.reassign.reassign_plan import (
    Plan,
    format_plan,
    moved,
    parse_log_dirs,
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
            plan[TopicPartition(topic, number)] = draw(st.permutations(brokers))[:copies]
    return plan


@given(plans())
def test_a_written_plan_is_read_back(plan: Plan) -> None:
    assert parse_plan(format_plan(plan), "plan") == plan


def test_a_plan_of_kafka_reassign_partitions_is_read() -> None:
    text = (
        '{"version":1,"partitions":[{"topic":"orders","partition":1,'
        '"replicas":[2,0],"log_dirs":["any","any"]}]}'
    )
    assert parse_plan(text, "plan") == {TopicPartition("orders", 1): [2, 0]}
    assert parse_log_dirs(text, "plan") == {}


def test_log_directories_are_read_by_broker() -> None:
    text = (
        '{"version":1,"partitions":['
        '{"topic":"orders","partition":0,"replicas":[2,0],"log_dirs":["/d2","any"]},'
        '{"topic":"orders","partition":1,"replicas":[2,1],"log_dirs":["/d3","/d1"]},'
        '{"topic":"orders","partition":2,"replicas":[2,1]}]}'
    )
    zero, one = TopicPartition("orders", 0), TopicPartition("orders", 1)
    assert parse_log_dirs(text, "plan") == {2: {zero: "/d2", one: "/d3"}, 1: {one: "/d1"}}
    with pytest.raises(CommandFailed, match="orders-0 needs one of log_dirs for each replica"):
        parse_log_dirs(text.replace('"/d2","any"', '"/d2"'), "plan")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "plan: invalid JSON"),
        ("[]", "expected"),
        ('{"version": 2, "partitions": []}', "expected"),
        ('{"version": 1, "partitions": []}', "plan: no partitions"),
        ('{"version": 1, "partitions": [{"topic": "a"}]}', "entry 1 needs"),
        ('{"version": 1, "partitions": [{"topic":"a","partition":0,"replicas":[]}]}', "no replica"),
        (
            '{"version": 1, "partitions": [{"topic":"a","partition":0,"replicas":[1,1]}]}',
            "a-0 has duplicate replicas",
        ),
    ],
)
def test_an_invalid_plan_is_rejected_with_the_entry(text: str, error: str) -> None:
    with pytest.raises(CommandFailed, match=error):
        parse_plan(text, "plan")


def test_partitions_can_be_given_one_by_one() -> None:
    assert parse_partitions(["orders:0=1,2", "a.b_c-d:10=3"]) == {
        TopicPartition("orders", 0): [1, 2],
        TopicPartition("a.b_c-d", 10): [3],
    }


@pytest.mark.parametrize("text", ["orders", "orders:0", "orders:x=1", "orders:0=", "orders:0=1,"])
def test_an_invalid_partition_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(CommandFailed, match="such as orders:0=1,2"):
        parse_partitions([text])


def test_a_duplicate_partition_is_rejected() -> None:
    with pytest.raises(CommandFailed, match="duplicate partition a-0"):
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
def test_a_proposal_is_stable(current: Plan, count: int) -> None:
    racks = dict.fromkeys(range(count))
    plan = propose(current, racks)
    assert propose(plan, racks) == plan


# The replica on broker 3 can only move to 0 or 1, which then have one too many.
DISPLACING = {**{TopicPartition("a", n): [0, 1] for n in range(8)}, TopicPartition("b", 0): [2, 3]}


@given(plans(), st.integers(3, 7))
@example(DISPLACING, 3)
def test_no_more_replicas_are_copied_than_balance_needs(current: Plan, count: int) -> None:
    """Replicas on other brokers, those they displace, and those above the even share."""
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


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    current = {TopicPartition("t", n): [n % 2, (n + 1) % 2] for n in range(6)}
    plan = propose(current, dict.fromkeys(range(3)))
    assert loads(plan, range(3)) == {0: 4, 1: 4, 2: 4}
    assert moved(current, plan) == 4
    assert spread(Counter(replicas[0] for replicas in plan.values())) <= 1


def test_leaders_are_spread_without_copying_anything() -> None:
    current = {TopicPartition("t", n): [0, 1, 2] for n in range(6)}
    plan = propose(current, dict.fromkeys(range(3)))
    assert moved(current, plan) == 0
    assert Counter(replicas[0] for replicas in plan.values()) == {0: 2, 1: 2, 2: 2}


def test_more_replicas_than_brokers_cannot_be_proposed() -> None:
    with pytest.raises(CommandFailed, match="t-0 has 2 replicas, but there are 1 brokers"):
        propose({TopicPartition("t", 0): [0, 1]}, {0: None})


def test_the_written_plan_is_kafkas_json() -> None:
    text = format_plan({TopicPartition("b", 1): [2, 0], TopicPartition("a", 0): [1]})
    assert json.loads(text) == {
        "version": 1,
        "partitions": [
            {"topic": "a", "partition": 0, "replicas": [1]},
            {"topic": "b", "partition": 1, "replicas": [2, 0]},
        ],
    }
