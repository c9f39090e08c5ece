"""The states of unhealthy partitions in `topics describe`."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cli.topics.topic_descriptions import keep_only, state_words, states
from tests.cli.conftest import Barnabas

BROKERS = {0: None, 1: None}


def partition(leader: int, replicas: list[int], isr: list[int]) -> Any:
    return SimpleNamespace(leader=leader, replicas=replicas, isrs=isr)


@pytest.mark.parametrize(
    ("leader", "replicas", "isr", "min_isr", "expected"),
    [
        (0, [0, 1], [0, 1], 1, []),
        (0, [0, 1], [0], 1, ["at min isr", "under-replicated"]),
        (0, [0, 1], [0], 2, ["under min isr", "under-replicated"]),
        (0, [0, 1], [0, 1], 2, ["at min isr"]),
        (0, [0], [0], 2, ["at min isr"]),
        (0, [0, 1], [0], 3, ["under min isr", "under-replicated"]),
        (-1, [2], [2], 1, ["unavailable", "at min isr"]),
        (2, [2, 0], [2], 1, ["unavailable", "at min isr", "under-replicated"]),
    ],
)
def test_a_partition_is_in_the_states_that_kafka_topics_would_report(
    leader: int, replicas: list[int], isr: list[int], min_isr: int, expected: list[str]
) -> None:
    assert states(partition(leader, replicas, isr), BROKERS, min_isr) == expected


def test_a_live_leader_that_does_not_answer_is_reported() -> None:
    assert states(partition(0, [0, 1], [0, 1]), BROKERS, 1, answers=False) == [
        "leader does not answer"
    ]
    assert states(partition(-1, [0, 1], [0, 1]), BROKERS, 1, answers=False) == ["unavailable"]


def row(number: int, replicas: list[int], isr: list[int], *states: str) -> dict[str, Any]:
    offline = [broker for broker in replicas if broker not in BROKERS]
    found = {"partition": number, "replicas": replicas, "isr": isr, "offline": offline}
    return {**found, "states": list(states)}


def test_a_healthy_partition_is_ok_and_others_show_their_states() -> None:
    assert state_words(row(0, [0, 1], [0, 1])) == "ok"
    assert state_words(row(0, [0], [0], "at min isr")) == "ok"
    assert state_words(row(0, [0, 2], [0], "under-replicated")) == "under-replicated, offline 2"


def test_filters_keep_only_matching_partitions_and_their_topics() -> None:
    good, bad = row(0, [0, 1], [0, 1]), row(1, [0, 1], [0], "under-replicated")
    topics = [{"topic": "a", "partitions": [good, bad]}, {"topic": "b", "partitions": [good]}]
    assert keep_only(topics, ["unavailable", "under-replicated"]) == [
        {"topic": "a", "partitions": [bad]}
    ]


def test_filters_leave_out_healthy_topics(topic: str, barnabas: Barnabas) -> None:
    for option in ("--under-replicated", "--unavailable", "--under-min-isr"):
        ended = barnabas("topics", "describe", topic, option, "--json")
        assert (ended.code, json.loads(ended.out)) == (0, [])
    ended = barnabas("topics", "describe", topic, "--at-min-isr", "--json")
    (found,) = json.loads(ended.out)
    assert (found["min_isr"], len(found["partitions"])) == (1, 2)
    assert [each["states"] for each in found["partitions"]] == [[], []]  # text says ok
