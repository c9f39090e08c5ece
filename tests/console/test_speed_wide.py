"""The console of topics and groups with thousands of partitions: no page waits for all of them."""

import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from tests.console.conftest import running_console
from tests.console.test_speed import AGAIN, Many, check, cost, watching
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(1800)]
# As many as a page has.
TOPICS, PARTITIONS = 25, 1_000
GROUPS, COMMITTED = 100, 500


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Many]:
    """25,000 partitions in 25 topics, and groups with 50,000 committed offsets."""
    broker = BrokerProcess(tmp_path_factory.mktemp("wide"), ["log.index.size.max.bytes=4096"])
    broker.start()
    try:
        settings = {"bootstrap.servers": broker.bootstrap, "socket.timeout.ms": 300_000}
        client = admin.AdminClient(settings)
        for number in range(TOPICS):
            topic = admin.NewTopic(f"wide-{number:02}", PARTITIONS, 1)
            client.create_topics([topic], request_timeout=290)[topic.topic].result(300)
        for number in range(GROUPS):
            wanted = ConsumerGroupTopicPartitions(f"group-{number:03}", committed_by(number))
            for done in client.alter_consumer_group_offsets([wanted]).values():
                done.result(60)
        with running_console(broker.bootstrap) as process:
            yield Many(process, broker)
    finally:
        broker.kill()  # so many logs take long to close


def committed_by(group: int) -> list[TopicPartition]:
    first = group * COMMITTED
    topic = f"wide-{first // PARTITIONS % TOPICS:02}"
    return [TopicPartition(topic, (first + each) % PARTITIONS, 0) for each in range(COMMITTED)]


PAGES = {
    "": "25,050 partitions",  # with those of __consumer_offsets
    "topics": "25 topics",
    "topics?sort=lag": "25 topics",
    "topics/wide-07": "page 1 of 10",
    "groups": "100 groups",
    "group?name=group-000": "500 partitions",
}


def test_topics_and_groups_of_thousands_of_partitions_hold_nobody_up(wide: Many) -> None:
    for path, words in PAGES.items():  # modules are loaded
        cost(wide, path, words)
    with watching(wide.console):
        found = {
            path: [cost(wide, path, words) for _ in range(AGAIN)] for path, words in PAGES.items()
        }
        # Sizes of the topics and lags of the groups come a little later.
        until(lambda: shown(wide, "topics").count("0 B") == TOPICS, "the sizes of all topics", 60)
        until(lambda: "being read" not in shown(wide, "groups"), "the lags of all groups", 60)
    check(wide, found)


def shown(wide: Many, path: str) -> str:
    with urllib.request.urlopen(f"{wide.console.url}{path}", timeout=120) as answer:
        page: str = answer.read().decode()
        return page
