"""Groups in a real browser: KIP-848 and classic members, and rebalances with their reason."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import TimeoutError

from barnabas.console.cluster.groups import ListedGroup, ListedMember
from barnabas.console.watch.rebalances import decide_rebalances
from tests.console.conftest import Visitor
from tests.support.background import in_background
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

Visit = Callable[..., Visitor]


def member(name: str, *owns: int, instance: str | None = None) -> ListedMember:
    return ListedMember(name, instance, "till", "10.0.0.7", None, {"orders": owns})


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        ([], [member("a", 0)], "till …a at 10.0.0.7 joined"),
        ([member("a", 0)], [], "till …a at 10.0.0.7 left, or its session expired"),
        (
            [member("a", 0, instance="till-1")],
            [member("b", 0, instance="till-1")],
            "till-1 at 10.0.0.7 started again",
        ),
        (
            [member("a", 0), member("b", 1)],
            [member("a", 1), member("b", 0)],
            "partitions moved between the same members",
        ),
    ],
)
def test_the_reason_of_a_rebalance_is_what_changed_about_its_members(
    before: list[ListedMember], now: list[ListedMember], reason: str
) -> None:
    group = {"g": ListedGroup("g", "Stable", "classic", "consumer", 0)}
    ((_, what, _),) = decide_rebalances(group, group, {"g": before}, {"g": now})
    assert what == f"group g: {reason}"


def test_members_that_nobody_looked_at_are_no_rebalance() -> None:
    group = {"g": ListedGroup("g", "Stable", "classic", "consumer", 0)}
    assert list(decide_rebalances(group, group, None, {"g": [member("a", 0)]})) == []


@contextmanager
def consuming(
    broker: BrokerProcess, topic: str, protocol: str, name: str, *, commits: bool = True
) -> Iterator[None]:
    """A member of group `topic` that polls all the while."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": f"{topic}-group",
        "client.id": name,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": commits,
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])

    def poll(stop: threading.Event) -> None:
        while not stop.is_set():
            consumer.poll(0.1)

    with closing(consumer), in_background(poll):
        yield


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_come_and_go_on_an_open_page(
    visit: Visit, broker: BrokerProcess, topic: str, protocol: str
) -> None:
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"v", partition=0)
    producer.flush(30)
    group, person = f"{topic}-group", visit()
    with consuming(broker, topic, protocol, "first"):
        page = person.open("groups", "Groups")
        shown = page.get_by_role("row", name=group).filter(has_text="Stable")
        shown.wait_for(timeout=60_000)
        word = "KIP-848" if protocol == "consumer" else "classic"
        shown.get_by_role("cell", name=word, exact=True).wait_for()
        page = person.open(f"group?name={group}", group)
        page.get_by_role("row", name=re.compile("first")).first.wait_for()
        page.get_by_text("live", exact=True).wait_for()
        joined = page.get_by_text(re.compile("second .* joined")).first

        def is_seen() -> bool:
            with consuming(broker, topic, protocol, "second"), suppress(TimeoutError):
                joined.wait_for(timeout=15_000)
            return joined.is_visible()

        # The first time it may join before the console has looked at the new group at all.
        assert any(is_seen() for _ in range(3))
        page.get_by_text(re.compile("second .* left")).first.wait_for(timeout=60_000)
        person.check()
    overview = person.open("", "Overview")
    overview.get_by_text(re.compile("second .* joined")).first.wait_for()
    person.check()


@pytest.mark.long
def test_a_group_that_has_committed_nothing_is_in_the_lists_with_what_it_owns(
    visit: Visit, broker: BrokerProcess, topic: str
) -> None:
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"v", partition=0)  # the other one is empty: it has no lag
    producer.flush(30)
    person, words = visit(), f"without {topic}-0: nothing committed"
    with consuming(broker, topic, "classic", "till", commits=False):
        page = person.open(f"groups?q={topic}", "Groups")
        row = page.get_by_role("row", name=topic).filter(has_text="Stable")
        row.get_by_text(words).wait_for(timeout=60_000)
        person.check()
        page = person.open(f"topics?q={topic}", "Topics")
        page.get_by_role("link", name=f"{topic}-group").wait_for()
        page.get_by_text(words).wait_for()
        page = person.open(f"topics/{topic}", topic)
        page.get_by_role("row", name=f"{topic}-group").get_by_text(words).wait_for()
        page = person.open(f"group?name={topic}-group", f"{topic}-group")
        empty = page.get_by_role("row", name=f"{topic} 1 \N{EN DASH} 0 0")
        empty.get_by_role("cell", name="till").wait_for()
        person.check()


def test_a_spark_query_is_shown_as_the_group_that_it_is(
    visit: Visit, broker: BrokerProcess, topic: str
) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(topic, 1, 1)])[topic].result(30)
    group = f"spark-{topic}"
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 0)])
    client.alter_consumer_group_offsets([wanted])[group].result(30)
    page = visit().open(f"groups?q={group}", "Groups")
    page.get_by_role("row", name=group).get_by_text("Spark query").wait_for()
