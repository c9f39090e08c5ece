"""Messages in a real browser: download, copy, filters that are bounded, tabs that stop reading."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.console.conftest import LOOKS, ConsoleProcess, Look, Visitor
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin
from tests.support.waiting import until

Visit = Callable[..., Visitor]


@pytest.fixture
def topic(topic: str, broker: BrokerProcess) -> str:
    """A topic with ten messages."""
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce(topic, f'{{"n": {number}, "s": "{"a" * 40}"}}', f"key {number}", 0)
    producer.flush(30)
    return topic


@pytest.mark.long
@pytest.mark.parametrize("look", LOOKS)
def test_messages_are_downloaded_and_copied(visit: Visit, topic: str, look: Look) -> None:
    person = visit()
    page = person.open(f"topics/{topic}/messages?where=oldest", topic)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_text("10 shown, 10 read; done").wait_for()
    with page.expect_download() as started:
        page.get_by_role("link", name="Download").click()
    lines = Path(started.value.path()).read_text().splitlines()
    assert [json.loads(line)["offset"] for line in lines] == list(range(10))
    assert started.value.suggested_filename == f"{topic}.jsonl"
    page.get_by_role("button", name="Message 0 3").click()
    page.get_by_role("button", name="Copy").locator("visible=true").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert json.loads(copied)["n"] == 3
    person.check()


def test_a_search_goes_on_with_more_messages(visit: Visit, topic: str) -> None:
    person = visit()
    page = person.open(f"topics/{topic}/messages?where=oldest&limit=4", topic)
    page.get_by_text("4 shown, 10 read; done").wait_for()
    more = page.get_by_role("button", name="More messages")
    more.click()
    page.get_by_text("8 shown").wait_for()
    more.click()
    page.get_by_text("10 shown").wait_for()
    more.wait_for(state="hidden")
    keys = page.locator("tr.message td:nth-child(4)").all_text_contents()
    assert keys == [f"key {number}" for number in range(10)]
    person.check()


@pytest.mark.long
def test_a_time_is_typed_as_it_is_seen_in_the_readers_zone(visit: Visit, topic: str) -> None:
    person = visit()
    session = person.page.context.new_cdp_session(person.page)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    page = person.open(f"topics/{topic}/messages", topic)
    for typed, sent in (
        ("2026-01-31 12:00", "2026-01-31T06:30:00.000Z"),
        ("2026-01-31", "2026-01-30T18:30:00.000Z"),
        ("2026-01-31T12:00Z", "2026-01-31T12:00Z"),
    ):
        page.get_by_label("Show").select_option("time")
        page.get_by_label("Offset or time").fill(typed)
        page.get_by_role("button", name="Read").click()
        page.get_by_text("10 shown, 10 read; done").wait_for()
        assert page.get_by_label("Offset or time").input_value() == sent
    utc = page.locator("tr.message time").first.get_attribute("title") or "none"
    page.get_by_role("button", name="Message 0 0").click()
    page.locator("#m-0-0 dd", has_text=utc.removesuffix(" UTC")).wait_for()
    person.check()


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "hostile",
    [
        'len("a" * 100000000000) > 1',  # memory
        'contains("a" * 300000000, value.s + "b") or contains("a" * 300000000, "ab")',  # time
    ],
    ids=["memory", "time"],
)
def test_a_hostile_expression_ends_and_disturbs_nobody(
    visit: Visit, console: ConsoleProcess, topic: str, hostile: str
) -> None:
    person = visit()
    page = person.open(f"topics/{topic}/messages?where=oldest", topic)
    page.locator("select[name=filter]").select_option("expression")
    page.get_by_label("Filter by").fill(hostile)
    page.get_by_role("button", name="Read").click()
    ended = page.get_by_text(re.compile("the filter was stopped|; done"))
    ended.locator("visible=true").first.wait_for(timeout=60_000)
    until(lambda: not children(console.pid), "the filter's process ends")
    other = visit()
    other.open("topics", "Topics")  # the console serves others all the while
    person.check()


def test_a_browser_tab_that_closes_stops_the_reading(
    visit: Visit, console: ConsoleProcess, topic: str
) -> None:
    person = visit()
    page = person.open(live(topic), topic)
    page.get_by_text("0 shown, 0 read").wait_for()
    assert children(console.pid)  # the process of the filter
    page.close()
    until(lambda: not children(console.pid), "the filter's process ends")


@pytest.mark.long
def test_a_tab_that_is_stopped_or_hidden_stops_the_reading(
    visit: Visit, console: ConsoleProcess, topic: str
) -> None:
    person = visit()
    page = person.open(live(topic), topic)
    page.get_by_text("0 shown, 0 read").wait_for()
    page.get_by_role("button", name="Stop").click()
    until(lambda: not children(console.pid), "the filter's process ends")
    page = person.open(live(topic), topic)
    page.get_by_text("0 shown, 0 read").wait_for()
    page.evaluate(HIDE)
    page.get_by_text("stopped while the tab was hidden").wait_for()
    until(lambda: not children(console.pid), "the filter's process ends")
    person.check()


# Chromium without a window never hides a tab: the page is told as a browser with windows tells it.
HIDE = """
Object.defineProperty(document, "hidden", {value: true, configurable: true});
document.dispatchEvent(new Event("visibilitychange"));
"""


def live(topic: str) -> str:
    return f"topics/{topic}/messages?where=live&filter=value&text=x"


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
