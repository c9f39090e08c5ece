"""Every change in a real browser: what is confirmed happens, and is recorded with who and when."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from tests.console.conftest import LOOKS, Look, Visitor
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

Visit = Callable[..., Visitor]


@pytest.fixture(params=LOOKS)
def look(request: pytest.FixtureRequest) -> Look:
    """Every action at every size and in every theme."""
    chosen: Look = request.param
    return chosen


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


def test_a_topic_is_created_after_a_page_that_says_so(
    visit: Visit, look: Look, broker: BrokerProcess
) -> None:
    name = f"made-{look[0]['width']}-{look[1]}"
    person = visit()
    page = person.open("topics-new", "Create a topic")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Partitions").fill("4")
    page.get_by_label("Configs").fill("retention.ms=3600000")
    page.get_by_role("button", name="Create…").click()
    page.get_by_text(f"Topic {name} is created with 4 partitions").wait_for()
    person.check()
    person.confirm("Create")
    page.get_by_text(f"Topic {name} was created.").wait_for()
    page.get_by_role("heading", level=1, name=name).wait_for()
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    assert len(client.list_topics(name).topics[name].partitions) == 4
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
    page = person.open(f"topics/{topic}/actions", topic)
    page.get_by_label("Type its name").fill("wrong")
    page.get_by_role("button", name="Delete…").click()
    page.get_by_text("“wrong” is another name").wait_for()
    person.complaints.clear()  # the browser's line about the status 400
    person.open(f"topics/{topic}/actions", topic)
    page.get_by_label("Type its name").fill(topic)
    page.get_by_role("button", name="Delete…").click()
    person.confirm("Delete")
    page.get_by_text(f"Topic {topic} was deleted.").wait_for()
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
    page.get_by_label("Topic (empty").fill(topic)
    page.get_by_label("Partitions (empty").fill("0")
    page.locator("select[name=scenario]").select_option("shift")
    page.get_by_label("Time, duration").fill("3")
    page.get_by_role("button", name="Preview…").click()
    page.get_by_text(f"{topic}-0: 4 → 7 (+3).").wait_for()
    person.check_all_looks()
    person.confirm("Reset offsets")
    page.get_by_text("1 offsets of group").wait_for()
    page.get_by_role("cell", name="7", exact=True).wait_for()
    page.get_by_role("link", name="Reset offsets").click()
    page.locator("select[name=scenario]").select_option("list")
    page.get_by_text("A list of offsets").click()
    page.locator("textarea[name=list]").fill(f"{topic},0,2\n{topic},1,0")
    person.check_all_looks()
    page.get_by_role("button", name="Preview…").click()
    page.get_by_text(f"{topic}-1: none → 0.").wait_for()
    person.confirm("Reset offsets")
    page.get_by_role("cell", name="2", exact=True).first.wait_for()
    page.get_by_role("button", name="Delete").click()
    person.confirm("Delete")
    page.get_by_text(f"Group {group} was deleted.").wait_for()
    person.check_all_looks()


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
    person.check_all_looks()
