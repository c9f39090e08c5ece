"""`barnabas topics` and `barnabas configs` against a broker."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Barnabas, Send


def described(barnabas: Barnabas, topic: str) -> dict[str, Any]:
    ended = barnabas("topics", "describe", topic, "--json")
    (found,) = json.loads(ended.out)
    assert isinstance(found, dict)
    return found


def test_a_topic_is_created_listed_described_altered_and_deleted(
    barnabas: Barnabas, send: Send
) -> None:
    name = "life-of-a-topic"
    created = barnabas(
        "topics", "create", name, "--partitions", 2, "--config", "retention.ms=123456"
    )
    assert (created.code, created.lines) == (0, [f"created topic {name}"])
    assert name in barnabas("topics", "list").lines

    send(name, "a", "b", "c", "-p", 1)
    topic = described(barnabas, name)
    assert topic["configs"] == {"retention.ms": "123456"}
    assert topic["replication_factor"] == 1
    assert [p["latest"] for p in topic["partitions"]] == [0, 3]
    assert [(p["leader"], p["replicas"], p["isr"]) for p in topic["partitions"]] == [
        (0, [0], [0])
    ] * 2

    altered = barnabas(
        "topics", "alter", name, "-p", 4, "-c", "segment.ms=60000", "-d", "retention.ms"
    )
    assert altered.code == 0
    topic = described(barnabas, name)
    assert topic["configs"] == {"segment.ms": "60000"}
    assert len(topic["partitions"]) == 4

    assert barnabas("topics", "delete", name, "--yes").lines == [f"deleted topic {name}"]
    assert name not in barnabas("topics", "list").lines


def test_a_description_is_printed_as_a_table(topic: str, barnabas: Barnabas) -> None:
    lines = barnabas("topics", "describe", topic).lines
    assert lines[0].startswith(f"topic {topic}: 2 partitions, replication factor 1, id ")
    assert " ".join(lines[1].split()) == "partition leader replicas isr earliest latest state"
    assert lines[2].split() == ["0", "0", "0", "0", "0", "0", "ok"]


def test_an_existing_topic_is_an_error_without_if_not_exists(
    topic: str, barnabas: Barnabas
) -> None:
    again = barnabas("topics", "create", topic)
    assert again.code == 1
    assert f"topic {topic} already exists" in again.err
    assert barnabas("topics", "create", topic, "--if-not-exists").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "no/slash"], "no/slash"),
        (["create", "t", "-c", "no.such.config=1"], "no.such.config"),
        (["create", "t", "-c", "retention.ms=soon"], "retention.ms"),
        (["create", "t", "-r", "3"], "[INVALID_REPLICATION_FACTOR]"),
        (["describe", "no-such-topic"], "there is no topic no-such-topic"),
        (["delete", "no-such-topic"], "there is no topic no-such-topic"),
        (["alter", "no-such-topic", "-p", "9"], "there is no topic no-such-topic"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_rejection_is_reported_in_one_line(
    arguments: list[str], message: str, barnabas: Barnabas
) -> None:
    ended = barnabas("topics", *arguments)
    assert (ended.code, ended.out) == (1, b"")
    assert message in ended.err
    assert ended.err.count("\n") == 1


def test_a_mistyped_topic_gets_a_suggestion(topic: str, barnabas: Barnabas) -> None:
    mistyped = topic[:-1]
    for command in (["topics", "describe"], ["consume"], ["produce"]):
        ended = barnabas(*command, mistyped)
        assert ended.code == 1
        assert f"there is no topic {mistyped} (did you mean {topic}?)" in ended.err


def test_the_number_of_partitions_cannot_shrink(topic: str, barnabas: Barnabas) -> None:
    ended = barnabas("topics", "alter", topic, "--partitions", 1)
    assert (ended.code, "can only grow" in ended.err) == (1, True)


def test_a_rejected_config_adds_no_partitions(topic: str, barnabas: Barnabas) -> None:
    ended = barnabas("topics", "alter", topic, "--partitions", 5, "--config", "no.such=1")
    assert ended.code == 1
    assert len(described(barnabas, topic)["partitions"]) == 2


def test_configs_of_a_topic_are_set_shown_and_deleted(topic: str, barnabas: Barnabas) -> None:
    on = ("--topic", topic)
    assert barnabas("configs", "describe", *on).lines == [
        "all configs are at their defaults; use --all to show them"
    ]
    assert barnabas("configs", "alter", *on, "--set", "retention.ms=1000").code == 0
    assert barnabas("configs", "describe", *on).lines[1].split(maxsplit=2) == [
        "retention.ms",
        "1000",
        "dynamic topic",
    ]
    assert barnabas("configs", "alter", *on, "--delete", "retention.ms").code == 0
    assert json.loads(barnabas("configs", "describe", *on, "--json").out) == []
    every = json.loads(barnabas("configs", "describe", *on, "--all", "--json").out)
    assert "cleanup.policy" in [config["name"] for config in every]


@pytest.mark.parametrize("change", ["no.such=1", "retention.ms=soon"])
def test_a_rejected_config_is_reported_with_the_brokers_reason(
    change: str, topic: str, barnabas: Barnabas
) -> None:
    ended = barnabas("configs", "alter", "--topic", topic, "--set", change)
    assert ended.code == 1
    assert change.partition("=")[0] in ended.err
    assert ended.err.count("\n") == ended.err.count(topic) == 1


def test_no_topic_is_deleted_if_one_is_unknown(topic: str, barnabas: Barnabas) -> None:
    ended = barnabas("topics", "delete", topic, "no-such-topic", "--yes")
    assert (ended.code, ended.out) == (1, b"")
    assert ended.err.endswith("; nothing was deleted\n")
    assert topic in barnabas("topics", "list").lines


def test_configs_of_a_broker_are_shown_with_their_source(barnabas: Barnabas) -> None:
    found = json.loads(barnabas("configs", "describe", "--broker", 0, "--json").out)
    assert {"static broker"} == {config["source"] for config in found}
    unknown = barnabas("configs", "describe", "--broker", 7)
    assert (unknown.code, "unknown broker 7; live brokers: 0" in unknown.err) == (1, True)
