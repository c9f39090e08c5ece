"""kcat against a broker, unmodified."""

import json

import pytest

from tests.clients.contract import ClientContract
from tests.support.broker import BrokerProcess
from tests.support.clients import Admin, Message
from tests.support.confluent_client import ConfluentClient
from tests.support.kcat_client import ABSENT, KCAT, KcatClient

pytestmark = pytest.mark.skipif(KCAT is None, reason=ABSENT)


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> KcatClient:
    return KcatClient(broker.bootstrap)


class TestKcat(ClientContract):
    pass


def test_the_cluster_is_listed(client: KcatClient, broker: BrokerProcess, topic: str) -> None:
    client.produce(topic, [Message(b"v")])
    listed = client.run(["-L"])
    assert "1 brokers:" in listed
    assert f"broker 0 at {broker.bootstrap} (controller)" in listed
    assert f'topic "{topic}" with 1 partitions:' in listed
    assert "partition 0, leader 0, replicas: 0, isrs: 0" in listed


def test_producing_creates_the_topic(client: KcatClient, some_admin: Admin, topic: str) -> None:
    assert topic not in some_admin.topics()
    client.produce(topic, [Message(b"v")])
    assert topic in some_admin.topics()


def test_a_message_is_shown_as_json(client: KcatClient, topic: str) -> None:
    client.produce(topic, [Message(b"value", b"key", (("name", b"v"),))])
    printed = json.loads(client.run(["-C", "-t", topic, "-J", "-e", "-q"]))
    assert printed["topic"] == topic
    assert (printed["partition"], printed["offset"], printed["tstype"]) == (0, 0, "create")
    assert (printed["key"], printed["payload"]) == ("key", "value")
    assert printed["headers"] == ["name", "v"]


def test_offsets_are_found_by_time(client: KcatClient, broker: BrokerProcess, topic: str) -> None:
    base = 1_600_000_000_000
    ConfluentClient(broker.bootstrap).produce(
        topic, [Message(b"%d" % i, timestamp=base + 10 * i) for i in range(5)]
    )
    assert client.offset_at(topic, base - 1) == 0
    assert client.offset_at(topic, base + 21) == 3
    assert client.offset_at(topic, base + 41) is None
    read = client.run(["-C", "-t", topic, "-o", f"s@{base + 15}", "-e", "-q", "-D", ","])
    assert read == "2,3,4,"


def test_reading_begins_some_messages_before_the_end(client: KcatClient, topic: str) -> None:
    client.produce(topic, [Message(b"%d" % i) for i in range(10)])
    assert client.run(["-C", "-t", topic, "-o", "-3", "-e", "-q", "-D", ","]) == "7,8,9,"
