"""Every change in a real browser: what is confirmed happens, and is recorded with who and when."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from starlette.requests import Request

from barnabas.base.randomness import Random
from barnabas.cli.main import run
from barnabas.console.console_options import ConsoleOptions
from barnabas.console.web.access import Sessions
from barnabas.console.web.page import Page
from tests.console.conftest import ConsoleProcess, Visitor, running_console
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin
from tests.support.waiting import until

Visit = Callable[..., Visitor]


@pytest.fixture
def topic(topic: str, broker: BrokerProcess) -> str:
    """A topic with two partitions and ten messages in the first."""
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce(topic, f"value {number}", f"key {number}", 0)
    producer.flush(30)
    return topic


def watermarks(broker: BrokerProcess, topic: str, partition: int) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    try:
        found: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(topic, partition))
        return found
    finally:
        consumer.close()


def test_a_topic_is_created_after_a_page_that_says_so(visit: Visit, broker: BrokerProcess) -> None:
    person = visit()
    page = person.open("topics-new", "Create a topic")
    page.get_by_label("Name").fill("console-made")
    page.get_by_label("Partitions").fill("4")
    page.get_by_label("Configs").fill("retention.ms=3600000")
    page.get_by_role("button", name="Create…").click()
    page.get_by_text("Topic console-made is created with 4 partitions").wait_for()
    person.check()
    person.confirm("Create")
    page.get_by_text("Topic console-made was created.").wait_for()
    page.get_by_role("heading", level=1, name="console-made").wait_for()
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    assert len(client.list_topics("console-made").topics["console-made"].partitions) == 4
    person.check()


@pytest.mark.long
def test_configs_are_set_and_reset(visit: Visit, topic: str) -> None:
    person = visit()
    page = person.open(f"topics/{topic}/configs", topic)
    page.get_by_label("New value of segment.ms").fill("60000")
    page.locator("tr", has_text="segment.ms").get_by_role("button", name="Set").first.click()
    person.confirm("Set")
    page.get_by_text(f"segment.ms of {topic} is 60000 now.").wait_for()
    page.get_by_role("button", name="Reset segment.ms").click()
    person.confirm("Reset")
    page.get_by_text("has its default again").wait_for()
    person.check()


@pytest.mark.long
def test_partitions_are_added_and_records_deleted(
    visit: Visit, topic: str, broker: BrokerProcess
) -> None:
    person = visit()
    page = person.open(f"topics/{topic}/actions", topic)
    page.get_by_label("New total").fill("5")
    page.get_by_role("button", name="Add…").click()
    page.get_by_text("gets 3 more partitions").wait_for()
    person.confirm("Add")
    page.get_by_text("has 5 partitions now").wait_for()
    page = person.open(f"topics/{topic}/actions", topic)
    page.get_by_label("Before offset").fill("7")
    page.get_by_role("button", name="Delete records…").click()
    page.get_by_text("7 messages before offset 7 are deleted").wait_for()
    person.confirm("Delete records")
    page.get_by_text(f"Records of {topic} were deleted.").wait_for()
    assert watermarks(broker, topic, 0) == (7, 10)
    person.check()


@pytest.mark.long
def test_a_topic_is_deleted_only_by_its_name(
    visit: Visit, topic: str, broker: BrokerProcess
) -> None:
    person = visit()
    for typed, outcome in (("wrong", "failed"), (topic, f"Topic {topic} was deleted.")):
        page = person.open(f"topics/{topic}/actions", topic)
        page.get_by_label("Type its name").fill(typed)
        page.get_by_role("button", name="Delete…").click()
        person.confirm("Delete")
        page.get_by_text(outcome).first.wait_for()
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    assert topic not in client.list_topics().topics
    person.check()


@pytest.mark.long
def test_a_message_is_produced_and_sent_again(
    visit: Visit, topic: str, broker: BrokerProcess
) -> None:
    person = visit()
    page = person.open(f"topics/{topic}/produce", topic)
    page.get_by_label("Partition").select_option("1")
    page.get_by_label("Key").fill("k")
    page.locator("textarea[name=value]").fill('{"made": "here"}')
    page.get_by_label("Headers").fill("source=console")
    page.get_by_role("button", name="Produce…").click()
    person.confirm("Produce")
    page.get_by_text(f"The message is in {topic}-1 at offset 0.").wait_for()
    page = person.open(f"topics/{topic}/messages?partition=1", topic)
    page.get_by_role("button", name="Message 1 0").click()
    page.get_by_role("link", name="Resend").click()
    page.get_by_role("button", name="Resend…").click()
    person.confirm("Produce")
    page.get_by_text(f"The message is in {topic}-1 at offset 1.").wait_for()
    assert watermarks(broker, topic, 1) == (0, 2)
    person.check()


@pytest.fixture
def group(topic: str, broker: BrokerProcess) -> str:
    """A group without members that has committed offset 4."""
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = ConsumerGroupTopicPartitions(f"{topic}-group", [TopicPartition(topic, 0, 4)])
    client.alter_consumer_group_offsets([wanted])[f"{topic}-group"].result(30)
    return f"{topic}-group"


@pytest.mark.long
def test_offsets_are_reset_after_a_preview_and_the_group_deleted(
    visit: Visit, topic: str, group: str
) -> None:
    person = visit()
    page = person.open(f"group?name={group}", group)
    page.get_by_role("link", name="Reset offsets").click()
    page.locator("select[name=scenario]").select_option("shift")
    page.get_by_label("Time, duration").fill("3")
    page.get_by_role("button", name="Preview…").click()
    page.get_by_text(f"{topic}-0: 4 → 7 (+3).").wait_for()
    person.check()
    person.confirm("Reset offsets")
    page.get_by_text("1 offsets of group").wait_for()
    page.get_by_role("cell", name="7", exact=True).wait_for()
    page.get_by_role("button", name="Delete").click()
    person.confirm("Delete")
    page.get_by_text(f"Group {group} was deleted.").wait_for()


@pytest.mark.long
def test_preferred_leaders_are_elected_and_throttles_removed(visit: Visit) -> None:
    person = visit()
    page = person.open("cluster", "Cluster")
    page.get_by_role("button", name="Elect preferred leaders…").click()
    person.confirm("Elect")
    page.get_by_text("led by their preferred replica again").wait_for()
    page.get_by_role("button", name="Remove throttles…").click()
    person.confirm("Remove")
    page.get_by_text("Throttles were removed").wait_for()
    page.get_by_text("elect leaders: Elect preferred leaders").first.wait_for()  # the audit log
    person.check()


# -- who may -----------------------------------------------------------------


def test_a_console_without_write_offers_no_change_and_refuses_all(
    visit: Visit, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    with running_console(broker.bootstrap) as reading:
        person = visit(at=reading)
        page = person.open(f"topics/{topic}", topic)
        assert page.get_by_role("link", name="Produce").count() == 0
        answer = page.request.post(f"{reading.url}topics/{topic}/delete", form={"confirmed": "yes"})
        assert answer.status == 403
        assert "only reads" in answer.text()


def test_a_form_without_the_browsers_token_or_from_another_site_changes_nothing(
    visit: Visit, console: ConsoleProcess, topic: str
) -> None:
    person = visit()
    page = person.open(f"topics/{topic}", topic)
    url = f"{console.url}topics/{topic}/delete"
    form: dict[str, str | float | bool] = {"confirmed": "yes", "again": topic, "csrf": "0" * 64}
    assert page.request.post(url, form=form).status == 403
    headers = {"origin": "http://elsewhere.example"}
    assert page.request.post(url, form=form, headers=headers).status == 403
    person.open(f"topics/{topic}", topic)


def test_the_password_opens_the_console_and_names_the_person(
    visit: Visit, broker: BrokerProcess
) -> None:
    with running_console(broker.bootstrap, password="sesame") as guarded:
        person = visit(at=guarded)
        page = person.open("topics", "Sign in")
        page.get_by_label("Name").fill("ada")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("This is not the password.").wait_for()
        page.get_by_label("Name").fill("ada")
        page.get_by_label("Password").fill("sesame")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text(re.compile("ada · read-only")).wait_for()


@pytest.mark.long
def test_a_proxy_names_the_person_and_nobody_else_gets_in(
    visit: Visit, broker: BrokerProcess
) -> None:
    with running_console(broker.bootstrap, "--user-header=X-Person") as guarded:
        request = visit(at=guarded).page.request
        assert request.get(f"{guarded.url}topics").status == 401
        answer = request.get(f"{guarded.url}topics", headers={"X-Person": "grace"})
        assert answer.status == 200
        assert "grace" in answer.text()


def test_the_header_is_believed_of_named_proxies_only(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["console", "--listen", "0.0.0.0:0", "--user-header", "X-Person"]) == 2
    assert "name the proxy with --proxy" in capfd.readouterr().err
    assert run(["console", "--user-header", "X-Person", "--proxy", "nowhere"]) == 2

    def person(peer: str) -> str:
        options = ConsoleOptions("b:1", user_header="X-Person", proxies=("10.0.0.5",))
        state = SimpleNamespace(options=options, sessions=Sessions(Random()))
        scope = {
            "type": "http",
            "path": "/",
            "client": (peer, 1),
            "headers": [(b"x-person", b"grace")],
            "app": SimpleNamespace(state=SimpleNamespace(console=state)),
        }
        return Page(Request(scope)).person

    assert [person(each) for each in ("10.0.0.5", "127.0.0.1", "10.0.0.6")] == [
        "grace",
        "grace",
        "",
    ]


def test_a_name_of_another_site_is_not_served(visit: Visit, console: ConsoleProcess) -> None:
    answer = visit().page.request.get(console.url, headers={"host": "evil.example"})
    assert answer.status == 421


def test_an_open_address_needs_a_door(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["console", "--listen", "0.0.0.0:0"]) == 2
    assert "others than this machine reach it" in capfd.readouterr().err


@pytest.mark.long
def test_every_change_is_in_the_audit_log(
    visit: Visit, broker: BrokerProcess, group: str, tmp_path: Path
) -> None:
    log = tmp_path / "audit.jsonl"
    with running_console(broker.bootstrap, "--write", f"--audit-log={log}") as writing:
        person = visit(at=writing)
        page = person.open(f"group?name={group}", group)
        page.get_by_role("button", name="Delete").click()
        person.confirm("Delete")
        page.get_by_text(f"Group {group} was deleted.").wait_for()
    (entry,) = map(json.loads, log.read_text().splitlines())
    assert (entry["person"], entry["action"], entry["outcome"]) == ("local", "delete group", "done")
    assert group in entry["what"]


def test_a_browser_tab_that_closes_stops_the_reading(
    visit: Visit, console: ConsoleProcess, topic: str
) -> None:
    person = visit()
    path = f"topics/{topic}/messages?where=live&filter=value&text=x"
    page = person.open(path, topic)
    page.get_by_text("0 shown, 0 read").wait_for()
    assert children(console.pid)  # the process of the filter
    page.close()
    until(lambda: not children(console.pid), "the filter's process ends")


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
