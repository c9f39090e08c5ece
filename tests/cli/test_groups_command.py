"""`barnabas groups` against a broker, with real consumers of both protocols."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from barnabas.cli.groups.groups_follow import Trend
from tests.cli.conftest import Barnabas, Send, spawn
from tests.support.broker import BrokerProcess


@contextmanager
def member(broker: BrokerProcess, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
    """A member that has read and committed 3 messages."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": f"client-of-{protocol}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        read = consumer.consume(3, timeout=30)
        assert len(read) == 3
        consumer.commit(message=read[-1], asynchronous=False)
        yield consumer
    finally:
        consumer.close()


@pytest.fixture
def group(topic: str, barnabas: Barnabas, send: Send) -> str:
    """A group without members, at offset 2 of 5 in partition 0 and 0 of 0 in partition 1."""
    send(topic, "a", "b", "c", "d", "e", "-p", 0)
    name = f"group-of-{topic}"
    assert reset(barnabas, name, topic, "--to-offset", 2, "--execute").code == 0
    return name


def reset(barnabas: Barnabas, group: str, topic: str, *arguments: object) -> Any:
    return barnabas("groups", "reset-offsets", group, "--topic", topic, *arguments)


def described(barnabas: Barnabas, group: str) -> dict[str, Any]:
    (found,) = json.loads(barnabas("groups", "describe", group, "--json").out)
    assert isinstance(found, dict)
    return found


def current(barnabas: Barnabas, group: str) -> list[int]:
    return [row["current_offset"] for row in described(barnabas, group)["partitions"]]


@pytest.mark.parametrize(
    ("protocol", "assignor", "epoch"), [("classic", "range", None), ("consumer", "uniform", 1)]
)
def test_a_group_with_a_member_is_described_and_cannot_be_reset_or_deleted(
    protocol: str,
    assignor: str,
    epoch: int | None,
    topic: str,
    broker: BrokerProcess,
    barnabas: Barnabas,
    send: Send,
) -> None:
    send(topic, "a", "b", "c", "d", "e", "-p", 0)
    name = f"{protocol}-with-a-member"
    with member(broker, name, topic, protocol):
        group = described(barnabas, name)
        facts = ("state", "type", "assignor", "epoch", "assignment_epoch", "lag")
        assert [group[fact] for fact in facts] == [
            "Stable",
            protocol.capitalize(),
            assignor,
            epoch,
            epoch,
            2,
        ]
        assert group["coordinator"]["port"] == broker.port
        (one,) = group["members"]
        assert (one["client_id"], one["host"]) == (f"client-of-{protocol}", "127.0.0.1")
        assert (one["epoch"], one["assignment"]) == (epoch, {topic: [0, 1]})
        reader = {key: one[key] for key in ("client_id", "host", "member_id")}
        assert group["partitions"] == [
            {
                "topic": topic,
                "partition": partition,
                "current_offset": offset,
                "log_end_offset": end,
                "lag": lag,
                **reader,
            }
            for partition, offset, end, lag in [(0, 3, 5, 2), (1, None, 0, None)]
        ]

        lines = barnabas("groups", "describe", name).lines
        assert lines[0].startswith(
            f"group {name}: Stable, {protocol} protocol, assignor {assignor}"
        )
        assert lines[2].split() == [topic, "0", "3", "5", "2", *reader.values()]
        assert lines[4] == "total lag 2, not counting 1 partition without a committed offset"
        members = barnabas("groups", "describe", name, "--members").lines
        assert members[2].split()[-2:] == ["2", f"{topic}:0,1"]

        states = ("groups", "list", "--json", "--state", "stable", "--type", protocol)
        assert name in [row["group"] for row in json.loads(barnabas(*states).out)]

        for refused in (
            reset(barnabas, name, topic, "--to-latest", "--execute"),
            barnabas("groups", "delete", name),
        ):
            assert (refused.code, refused.out, refused.err.count("\n")) == (1, b"", 1)
            assert (
                f"group {name} has 1 member and is Stable; only one without members" in refused.err
            )
        subscribed = barnabas("groups", "delete-offsets", name, "--topic", f"{topic}:0")
        assert subscribed.code == 1
        assert "[GROUP_SUBSCRIBED_TO_TOPIC]" in subscribed.lines[1]
        assert "failed to delete 1 of 1 offset" in subscribed.err
    assert current(barnabas, name) == [3]
    assert barnabas("groups", "delete", name).lines == [f"deleted group {name}"]
    assert name not in [line.split()[0] for line in barnabas("groups", "list").lines[1:]]


def test_a_reset_is_a_dry_run_without_execute(topic: str, group: str, barnabas: Barnabas) -> None:
    shown = reset(barnabas, group, topic, "--to-earliest")
    assert [line.split() for line in shown.lines] == [
        ["group", "topic", "partition", "from", "to", "difference"],
        [group, topic, "0", "2", "0", "-2"],
        [group, topic, "1", "0", "0", "0"],
    ]
    assert shown.err == "dry run: 1 of 2 offsets would change; use --execute to commit them\n"
    assert current(barnabas, group) == [2, 0]
    done = reset(barnabas, group, topic, "--to-earliest", "--execute")
    assert (done.code, done.err) == (0, "committed 2 offsets, 1 of them changed\n")
    assert current(barnabas, group) == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        (["--to-latest"], [5, 0]),
        (["--to-current"], [2, 0]),
        (["--to-offset", 4], [4, 0]),
        (["--shift-by", -1], [1, 0]),
        (["--shift-by", 99], [5, 0]),
        (["--to-datetime", "2001-01-01T00:00:00Z"], [0, 0]),
        (["--to-datetime", "1901-01-01"], [0, 0]),
        (["--to-datetime", "2100-01-01"], [5, 0]),
        (["--by-duration", "PT1H"], [0, 0]),
        (["--by-duration", "P99999D"], [0, 0]),
        (["--by-duration", "PT0S"], [5, 0]),
    ],
    ids=lambda value: "-".join(map(str, value)),
)
def test_each_scenario_resets_to_its_offsets(
    arguments: list[object], offsets: list[int], topic: str, group: str, barnabas: Barnabas
) -> None:
    ended = reset(barnabas, group, topic, *arguments, "--json")
    assert [row["to"] for row in json.loads(ended.out)] == offsets


def test_an_offset_out_of_range_is_clamped_with_a_note(
    topic: str, group: str, barnabas: Barnabas
) -> None:
    ended = reset(barnabas, group, f"{topic}:0", "--to-offset", 77, "--execute")
    assert ended.lines[1].endswith("77 is after the log end")
    assert current(barnabas, group) == [5, 0]


def test_an_export_can_be_restored(
    topic: str, group: str, barnabas: Barnabas, tmp_path: Path
) -> None:
    file, all_topics = tmp_path / "offsets.csv", ("groups", "reset-offsets", group, "--all-topics")
    exported = barnabas(*all_topics, "--to-current", "--export")
    assert exported.lines == [f"{topic},0,2", f"{topic},1,0"]
    file.write_bytes(exported.out)
    assert barnabas(*all_topics, "--to-latest", "--execute").code == 0
    back = barnabas("groups", "reset-offsets", group, "--from-file", file, "--execute")
    assert (back.code, current(barnabas, group)) == (0, [2, 0])

    both = barnabas("groups", "reset-offsets", group, "new", "-t", topic, "--to-latest", "--export")
    assert both.lines[-1] == f"new,{topic},1,0"
    assert "group new does not exist" in both.err
    file.write_bytes(both.out)
    again = barnabas("groups", "reset-offsets", group, "--from-file", file, "--execute")
    assert (again.code, current(barnabas, group)) == (0, [5, 0])
    assert barnabas("groups", "describe", "new").code == 1


def test_offsets_are_deleted_one_by_one(topic: str, group: str, barnabas: Barnabas) -> None:
    ended = barnabas("groups", "delete-offsets", group, "--topic", f"{topic}:1", "--json")
    assert json.loads(ended.out) == [{"topic": topic, "partition": 1, "result": "deleted"}]
    assert current(barnabas, group) == [2]


def test_offsets_of_a_deleted_topic_are_not_reset(
    topic: str, group: str, barnabas: Barnabas
) -> None:
    assert barnabas("topics", "delete", topic, "--yes").code == 0
    ended = barnabas("groups", "reset-offsets", group, "--all-topics", "--to-latest")
    assert (ended.code, ended.out) == (0, b"")
    assert "no offsets to reset" in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["describe", "no-such-group"], 1, "there is no group no-such-group ("),
        (["describe", ""], 2, "group id is empty"),
        (["describe"], 2, "Missing argument"),
        (["describe", "g", "--interval", "0"], 2, "must be at least 0.1"),
        (["delete", "no-such-group"], 1, "there is no group no-such-group ("),
        (["delete-offsets", "no-such-group"], 2, "specify --topic"),
        (["delete-offsets", "g", "--topic", "no-such-topic"], 1, "there is no topic no-such-topic"),
        (["delete-offsets", "g", "--topic", "t:x"], 2, "--topic t:x: expected TOPIC or TOPIC:0,1"),
        (["list", "--state", "Sleeping"], 2, "--state Sleeping: expected Unknown, Prep"),
        (["list", "--type", "modern"], 2, "--type modern: expected Classic, Consumer"),
        (["reset-offsets", "g", "--topic", "t"], 2, "specify one of --to-earliest, --to-latest"),
        (["reset-offsets", "g", "--to-latest", "--to-earliest"], 2, "specify one of --to-earliest"),
        (["reset-offsets", "g", "--to-latest"], 2, "specify either --topic TOPIC[:0,1] or --all-t"),
        (["reset-offsets", "g", "-t", "t", "--all-topics", "--to-latest"], 2, "specify either --t"),
        (["reset-offsets", "g", "-t", "no-such", "--to-latest"], 1, "there is no topic no-such"),
        (["reset-offsets", "g", "-t", "t", "--to-datetime", "noon"], 2, "--to-datetime noon: exp"),
        (["reset-offsets", "g", "-t", "t", "--to-datetime", "2026"], 2, "--to-datetime 2026: a n"),
        (["reset-offsets", "g", "-t", "t", "--by-duration", "1h"], 2, "--by-duration 1h: expect"),
        (["reset-offsets", "g", "-t", "t", "--to-offset", "-1"], 2, "must be at least 0"),
        (["reset-offsets", "g", "--from-file", "/no/such"], 2, "/no/such: No such file"),
        (["reset-offsets", "g", "-t", "t", "--from-file", "f"], 2, "--topic cannot be used with"),
        (
            ["reset-offsets", "g", "-t", "t", "--to-latest", "--execute", "--dry-run"],
            2,
            "specify eit",
        ),
        (
            ["reset-offsets", "g", "-t", "t", "--to-latest", "--json", "--export"],
            2,
            "specify either",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_is_reported_in_one_line(
    arguments: list[str], code: int, message: str, barnabas: Barnabas
) -> None:
    ended = barnabas("groups", *arguments)
    assert (ended.code, ended.out) == (code, b"")
    assert message in ended.err
    assert [line for line in ended.err.splitlines() if line.startswith("barnabas: ")] == [
        ended.err.splitlines()[-1]
    ]


def test_a_mistyped_group_gets_a_suggestion_and_nothing_is_deleted(
    group: str, barnabas: Barnabas
) -> None:
    ended = barnabas("groups", "delete", group, group[:-1])
    assert (ended.code, ended.out) == (1, b"")
    assert f"(did you mean {group}?); nothing was deleted" in ended.err
    assert current(barnabas, group) == [2, 0]


def test_an_unreachable_broker_is_reported_in_one_line(offline: Barnabas) -> None:
    ended = offline("groups", "list", "-b", "127.0.0.1:1")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "no Kafka broker answers at 127.0.0.1:1" in ended.err


def test_following_shows_the_trend_of_the_lag(
    topic: str, group: str, broker: BrokerProcess, send: Send
) -> None:
    arguments = ("groups", "describe", group, "--follow", "--json", "--interval", 0.2)
    with spawn(*arguments, broker=broker) as process:
        assert process.stdout is not None
        (first,) = json.loads(process.stdout.readline())
        assert (first["lag"], first["lag_per_s"]) == (3, None)
        send(topic, *"fghij", "-p", 0)
        while (last := json.loads(process.stdout.readline())[0])["lag"] == 3:
            pass
        assert last["lag"] == 8
        assert last["lag_per_s"] > 0
        assert last["partitions"][0]["lag_per_s"] > 0
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_on_a_terminal_the_description_is_refreshed_in_place(
    group: str, broker: BrokerProcess
) -> None:
    here, there = pty.openpty()
    command = [sys.executable, "-m", "barnabas.cli.main", "groups", "describe", group, "-F"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "40"}
    with subprocess.Popen(
        [*command, "--interval", "0.2", "-b", broker.bootstrap], stdout=there, env=environment
    ) as process:
        os.close(there)
        shown = b""
        while shown.count(b"total lag 3") < 3:
            shown += os.read(here, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    os.close(here)
    assert b"\x1b[1A\x1b[2K" in shown  # up one line, and clear it
    assert b"lag/s" in shown


def rates(seconds: list[int], lags: list[int | None]) -> list[float | None]:
    ticks = iter(seconds)
    trend = Trend(lambda: next(ticks) * 10**9)
    found = []
    for lag in lags:
        row = {"topic": "t", "partition": 0, "current_offset": 1, "lag": lag}
        group: dict[str, Any] = {"group": "g", "lag": lag or 0, "partitions": [row]}
        trend.add(group)
        assert group["lag_per_s"] == row["lag_per_s"]
        found.append(group["lag_per_s"])
    return found


def test_a_trend_covers_the_last_seconds_only() -> None:
    assert rates([0, 1, 2, 30, 31], [0, 10, 20, 20, 5]) == [None, 10.0, 10.0, 0.0, -15.0]


def test_an_unknown_lag_has_no_trend() -> None:
    assert rates([0, 1, 2, 3], [10, None, 10, 12]) == [None, None, None, 2.0]
