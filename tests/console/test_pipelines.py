"""Pipelines in a real browser, with a real Spark: an archive is started, seen at work, stopped."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.console.conftest import Visitor, running_console
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]
Visit = Callable[..., Visitor]
SPARK_MS = 600_000


def test_an_archive_is_started_seen_at_work_and_stopped(
    visit: Visit, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([admin.NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(100):
        producer.produce(topic, f"value {number}")
    producer.flush(30)
    with running_console(broker.bootstrap, "--write", f"--pipelines={tmp_path}") as console:
        person = visit(at=console)
        page = person.open("pipelines", "Pipelines")
        page.get_by_text("Archive a topic").click()
        page.get_by_label("Topic", exact=True).fill(topic)
        page.get_by_role("button", name="Start…").click()
        page.get_by_text("This machine runs: barnabas pipeline archive").wait_for()
        person.check_all_looks()
        person.confirm("Start")
        page.get_by_text(f"archive of {topic} was started.").wait_for()
        page.get_by_text("running", exact=True).wait_for()
        archive = page.get_by_role("region", name="Archives").get_by_role("row", name=topic)
        archive.get_by_role("cell", name="100", exact=True).wait_for(timeout=SPARK_MS)
        person.check_all_looks()
        page.get_by_role("button", name="Stop…").click()
        person.confirm("Stop")
        page.get_by_text("is stopping.").wait_for()
        ended = page.get_by_text(re.compile("^(done|failed)$"))
        ended.wait_for(timeout=SPARK_MS)
        assert ended.text_content() == "done", page.locator("pre").first.text_content()
        person.check_all_looks()
