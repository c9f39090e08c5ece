"""Every page in a real browser: what it shows, no complaint, nothing that axe-core refuses."""

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer

from tests.console.conftest import DESKTOP, PHONE, Visitor
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

Visit = Callable[..., Visitor]
ORDERS = "console-orders"
GROUP = "console-billing"


@pytest.fixture(scope="session")
def orders(broker: BrokerProcess) -> str:
    """A topic with 60 orders in three partitions, and a group that has read half of them."""
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(ORDERS, 3, 1)])[ORDERS].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(60):
        producer.produce(
            ORDERS,
            f'{{"id": {number}, "total": {number * 7}, "customer": {{"name": "c{number % 5}"}}}}',
            f"key-{number}",
            number % 3,
            headers={"source": "web" if number % 2 else "shop"},
        )
    producer.flush(30)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([ORDERS])
    read = 0
    while read < 30:
        read += len(consumer.consume(30 - read, 1.0))
    consumer.commit(asynchronous=False)
    consumer.close()
    return ORDERS


PAGES = (
    ("", "Overview", "Brokers"),
    (f"topics?q={ORDERS}", "Topics", ORDERS),
    (f"topics/{ORDERS}", ORDERS, "Leader epoch"),
    (f"topics/{ORDERS}/configs", ORDERS, "retention.ms"),
    (f"topics/{ORDERS}/messages?limit=200", ORDERS, "60 read"),
    (f"topics/{ORDERS}/produce", ORDERS, "Headers, one"),
    (f"topics/{ORDERS}/actions", ORDERS, "Delete records"),
    ("topics-new", "Create a topic", "Configs, one"),
    ("groups", "Groups", GROUP),
    (f"group?name={GROUP}", GROUP, "Lag over the last hours"),
    (f"group/reset?name={GROUP}", "Reset offsets", "Time, duration"),
    ("cluster", "Cluster", "Log directories"),
    ("cluster/brokers/0", "Broker 0", "configs differ"),
    (f"cluster/reassign?topics={ORDERS}", "Plan a reassignment", "replicas to copy"),
    ("transactions", "Transactions", ""),
    ("security", "Security", "Quotas"),
    ("pipelines", "Pipelines", "Projects"),
    (f"log?topic={ORDERS}", "Log", "Base offset"),
)


# The pages that every run of the suite visits.
FIRST = (
    "",
    f"topics?q={ORDERS}",
    f"topics/{ORDERS}",
    f"topics/{ORDERS}/messages?limit=200",
    "groups",
)


@pytest.mark.parametrize(
    ("path", "heading", "words"),
    [pytest.param(*each, marks=() if each[0] in FIRST else pytest.mark.long) for each in PAGES],
)
def test_a_page_shows_what_it_is_for_without_complaints(
    visit: Visit, orders: str, path: str, heading: str, words: str
) -> None:
    person = visit()
    page = person.open(path, heading)
    page.get_by_text(words).first.wait_for()
    person.check()


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["1280", "390"])
@pytest.mark.parametrize(("path", "heading", "words"), PAGES)
def test_a_page_keeps_its_promises_at_both_sizes_and_themes(
    visit: Visit,
    orders: str,
    path: str,
    heading: str,
    words: str,
    size: dict[str, int],
    dark: bool,
) -> None:
    person = visit(size, dark=dark)
    page = person.open(path, heading)
    page.get_by_text(words).first.wait_for()
    person.check()


def test_a_search_is_answered_while_it_is_typed(visit: Visit, orders: str) -> None:
    person = visit()
    page = person.open("topics", "Topics")
    page.keyboard.press("/")
    page.keyboard.type("nothing-has-this-name")
    page.get_by_text("No topic has").wait_for()
    page.get_by_role("searchbox").fill(ORDERS)
    page.get_by_role("link", name=ORDERS, exact=True).wait_for()
    page.wait_for_url("**q=console-orders**")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name=ORDERS).wait_for()
    person.check()


@pytest.mark.long
def test_a_slash_leads_to_the_search_of_topics_from_a_page_without_one(
    visit: Visit, orders: str
) -> None:
    person = visit()
    page = person.open("cluster", "Cluster")
    page.keyboard.press("/")
    page.get_by_role("heading", level=1, name="Topics").wait_for()
    page.locator("input[type=search]:focus").wait_for()
    page.keyboard.type("nothing-has-this-name")
    page.get_by_text("No topic has").wait_for()
    person.check()


def test_what_happens_appears_on_an_open_page_by_itself(
    visit: Visit, orders: str, broker: BrokerProcess, topic: str
) -> None:
    person = visit()
    page = person.open("", "Overview")
    page.get_by_text("live", exact=True).wait_for()
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    rate = page.locator(".tile", has_text="Messages a second").locator("dd")
    rate.filter(has_text=re.compile(r"\d")).wait_for()  # the cluster was looked at twice
    client.create_topics([admin.NewTopic(topic, 1, 1)])[topic].result(30)
    page.get_by_text(f"topic {topic} was created").wait_for()
    person.check()


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("expression", 'value.total > 400 and headers.source == "web"', "1 shown, 60 read"),
        pytest.param("path", "$.customer.name = c3", "12 shown", marks=pytest.mark.long),
        pytest.param("key", "key-59", "1 shown", marks=pytest.mark.long),
        pytest.param("header", "source=shop", "30 shown", marks=pytest.mark.long),
    ],
)
def test_messages_are_filtered_by_what_is_in_them(
    visit: Visit, orders: str, kind: str, text: str, found: str
) -> None:
    person = visit()
    page = person.open(f"topics/{ORDERS}/messages?where=oldest", ORDERS)
    page.locator("select[name=filter]").select_option(kind)
    page.get_by_label("Filter by").fill(text)
    page.get_by_role("button", name="Read").click()
    page.get_by_text(found).first.wait_for()
    assert person.complaints == []


def test_a_live_tail_shows_a_message_as_it_arrives_and_opens_it(
    visit: Visit, orders: str, broker: BrokerProcess
) -> None:
    person = visit()
    page = person.open(f"topics/{ORDERS}/messages?where=live", ORDERS)
    page.get_by_text("0 shown, 0 read").wait_for()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("console-tail", b"created", b"k")
    producer.produce(ORDERS, b'{"hello": "tail"}', b"live-key", 0)
    producer.flush(30)
    page.get_by_role("button", name="Message 0").first.click()
    page.locator("pre", has_text='"hello": "tail"').wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("stopped").wait_for()
    person.check()


@pytest.mark.long
def test_an_expression_that_is_none_says_what_is_wrong(visit: Visit, orders: str) -> None:
    person = visit()
    path = f"topics/{ORDERS}/messages?filter=expression&text=__import__('os')"
    page = person.open(path, ORDERS)
    page.get_by_role("alert").get_by_text("functions are").wait_for()
    person.check()
