"""Resets of a group's offsets, of every kind, as the application decides them on a real broker."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from starlette.applications import Starlette

from barnabas.console.console_options import ConsoleOptions
from barnabas.console.console_state import ConsoleState
from tests.console.test_web import Answer, ask, cookie_of, served
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

SECOND = 1_000_000_000_000


@pytest.fixture
def group(topic: str, broker: BrokerProcess) -> str:
    """A group that has committed offset 4 of the first of three partitions with 10 messages."""
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(topic, 3, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(30):
        producer.produce(topic, b"v", partition=number % 3, timestamp=SECOND + 1000 * number)
    producer.flush(30)
    name = f"{topic}-group"
    commit(broker, name, {TopicPartition(topic, 0): 4})
    return name


def commit(broker: BrokerProcess, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = [TopicPartition(at.topic, at.partition, offset) for at, offset in offsets.items()]
    client.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])[
        group
    ].result(30)


def committed(broker: BrokerProcess, group: str) -> dict[int, int]:
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    found = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {
        each.partition: each.offset
        for each in found[group].result(30).topic_partitions
        if each.offset >= 0
    }


def reset(broker: BrokerProcess, group: str, form: Mapping[str, str]) -> tuple[Answer, Answer]:
    """The preview, and the group's page after it was confirmed."""
    found: list[Any] = []

    async def work(app: Starlette, state: ConsoleState) -> None:
        browser = cookie_of(await ask(app, "GET", f"/group/reset?name={group}"))
        (session,) = state.sessions._sessions.values()
        csrf = {"csrf": state.sessions.token(session)}
        preview = await ask(app, "POST", "/group/reset", browser, {**csrf, "name": group, **form})
        for plan in re.findall(r'name="confirmed" value="(\w+)"', preview.text):
            await ask(app, "POST", "/group/reset", browser, {**csrf, "confirmed": plan})
        found.extend((preview, await ask(app, "GET", f"/group?name={group}", browser)))

    served(ConsoleOptions(broker.bootstrap, write=True), work)
    return found[0], found[1]


@pytest.mark.parametrize(
    ("form", "offsets"),
    [
        ({"scenario": "earliest"}, {0: 0}),
        ({"scenario": "latest"}, {0: 10}),
        ({"scenario": "shift", "value": "-3"}, {0: 1}),
        ({"scenario": "shift", "value": "+3"}, {0: 7}),
        ({"scenario": "shift", "value": "100"}, {0: 10}),
        ({"scenario": "offset", "value": "7"}, {0: 7}),
        ({"scenario": "datetime", "value": "2001-09-09T01:46:43Z"}, {0: 1}),
        ({"scenario": "datetime", "value": "yesterday"}, None),
        ({"scenario": "duration", "value": "PT1H"}, {0: 10}),
        ({"scenario": "duration", "value": "an hour"}, None),
        ({"scenario": "current"}, {0: 4}),
        ({"scenario": "delete"}, {}),
        ({"scenario": "earliest", "topic": "TOPIC"}, {0: 0, 1: 0, 2: 0}),
        ({"scenario": "current", "topic": "TOPIC"}, {0: 4, 1: 10, 2: 10}),
        ({"scenario": "shift", "value": "1", "topic": "TOPIC"}, {0: 5}),
        ({"scenario": "earliest", "topic": "TOPIC", "partitions": "1, 2"}, {0: 4, 1: 0, 2: 0}),
        ({"scenario": "earliest", "topic": "TOPIC", "partitions": "3"}, None),
        ({"scenario": "earliest", "topic": "TOPIC", "partitions": "x"}, None),
        ({"scenario": "latest", "topic": "nothing-has-this-name"}, None),
        ({"scenario": "latest", "partitions": "0"}, None),
        ({"scenario": "list", "list": "TOPIC,1,3\nTOPIC,0,9"}, {0: 9, 1: 3}),
        ({"scenario": "list", "list": "TOPIC,7,3"}, None),
        ({"scenario": "list", "list": "what is this"}, None),
        ({"scenario": "list", "list": ""}, None),
        ({"scenario": "anything"}, None),
    ],
)  # fmt: skip
def test_offsets_become_what_the_preview_says(
    broker: BrokerProcess,
    topic: str,
    group: str,
    form: dict[str, str],
    offsets: dict[int, int] | None,
) -> None:
    """None: it is refused in words of the page, and nothing changes."""
    preview, _ = reset(broker, group, {k: v.replace("TOPIC", topic) for k, v in form.items()})
    if offsets is None:
        assert preview.status == 400
        assert "Nothing was changed" in preview.text
        assert "--" not in preview.text.partition("<main")[2].replace("<!--", "").replace("-->", "")
    assert committed(broker, group) == ({0: 4} if offsets is None else offsets)


def test_a_preview_has_every_partition_with_before_and_after(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    preview, after = reset(broker, group, {"scenario": "offset", "value": "99", "topic": topic})
    assert f"{topic}-0: 4 → 10 (+6), 99 is after the log end." in preview.text
    assert f"{topic}-2: none → 10, 99 is after the log end." in preview.text
    assert "3 offsets of group" in after.text


def test_offsets_that_were_downloaded_put_a_group_back(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    commit(broker, group, {TopicPartition(topic, 2): 6})
    lists: list[str] = []

    async def work(app: Starlette, _: ConsoleState) -> None:
        lists.append((await ask(app, "GET", f"/group/offsets?name={group}")).text)

    served(ConsoleOptions(broker.bootstrap), work)
    assert lists == [f"{topic},0,4\n{topic},2,6\n"]
    reset(broker, group, {"scenario": "earliest"})
    assert committed(broker, group) == {0: 0, 2: 0}
    reset(broker, group, {"scenario": "list", "list": lists[0]})
    assert committed(broker, group) == {0: 4, 2: 6}
