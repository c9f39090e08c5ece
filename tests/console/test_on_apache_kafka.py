"""The console of Apache Kafka, with transactions, users, ACLs and quotas.

Kafka 3.9 has ZooKeeper, 4.1 has not. Skipped where it is not available.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.console.conftest import LOOKS, ConsoleProcess, Look, Visitor, running_console
from tests.support.apache_kafka import apache_kafka
from tests.support.confluent_client import admin
from tests.support.kafka_broker import KafkaBroker, running_kafka, running_zookeeper
from tests.support.kraft_broker import KraftBroker, kraft_kafka, running_kraft

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
Visit = Callable[..., Visitor]


OPEN_TO_ALL = {"allow.everyone.if.no.acl.found": "true", "super.users": "User:ANONYMOUS"}
WITH_ZOOKEEPER = OPEN_TO_ALL | {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
KRAFT = OPEN_TO_ALL | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
}


@contextlib.contextmanager
def kafka_3(folder: Path) -> Iterator[str]:
    with running_zookeeper(apache_kafka(), folder / "zk") as zookeeper:
        broker = KafkaBroker(zookeeper, folder / "kafka", folder / "data", WITH_ZOOKEEPER)
        with running_kafka(broker):
            yield broker.bootstrap


@contextlib.contextmanager
def kafka_4(folder: Path) -> Iterator[str]:
    with running_kraft(KraftBroker(kraft_kafka(), folder, KRAFT)) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module", params=[kafka_3, kafka_4], ids=["3.9", "4.1"])
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A broker with a topic that a transaction wrote to."""
    with request.param(tmp_path_factory.mktemp("console-kafka")) as bootstrap:
        client = admin.AdminClient({"bootstrap.servers": bootstrap})
        client.create_topics([admin.NewTopic("orders", 3, 1)])["orders"].result(30)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "till-1"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in range(30):
            producer.produce("orders", f'{{"id": {number}}}', f"key-{number}", number % 3)
        producer.commit_transaction(60)
        yield bootstrap


@pytest.fixture(scope="module")
def of_kafka(kafka: str) -> Iterator[ConsoleProcess]:
    with running_console(kafka, "--write") as process:
        yield process


def test_pages_show_apache_kafka(visit: Visit, of_kafka: ConsoleProcess) -> None:
    person = visit(at=of_kafka)
    for path, heading, words in (
        ("", "Overview", "controller"),
        ("topics", "Topics", "orders"),
        ("topics/orders", "orders", "Producers"),
        ("topics/orders/configs", "orders", "retention.ms"),
        ("topics/orders/messages", "orders", "30 shown, 30 read"),
        ("groups", "Groups", "No groups yet"),
        ("cluster", "Cluster", "Log directories"),
        ("cluster/brokers/0", "Broker 0", "configs differ"),
        ("transactions", "Transactions", "till-1"),
        ("security", "Security", "No ACLs"),
        ("log?topic=orders", "Log", "transaction"),
    ):
        page = person.open(path, heading)
        page.get_by_text(words).first.wait_for()
        person.check()


@pytest.mark.parametrize("look", LOOKS)
def test_acls_users_and_quotas_are_changed_and_explained(
    visit: Visit, of_kafka: ConsoleProcess, look: Look
) -> None:
    person = visit(at=of_kafka)
    page = person.open("security", "Security")
    page.get_by_text("Add an ACL").click()
    form = page.locator("#new-acl")
    form.get_by_label("Principal").fill("ada")
    form.get_by_label("Name").fill("orders")
    form.get_by_label("Operation").select_option("Read")
    form.get_by_role("button", name="Add…").click()
    person.confirm("Add")
    page.get_by_text("Added: Allow User:ada Read on Topic orders").wait_for()
    for operation, verdict in (("Describe", "Allowed."), ("Write", "Not allowed.")):
        query = f"security?who=ada&operation={operation}&resource=Topic&name=orders"
        person.open(query, "Security").get_by_text(verdict).wait_for()
    person.check()
    page.get_by_text("Set a user's password").click()
    form = page.locator("#new-user")
    form.get_by_label("User").fill("ada")
    form.get_by_label("Password").fill("lovelace")
    form.get_by_role("button", name="Set…").click()
    person.confirm("Set")
    page.get_by_text("User ada was set.").wait_for()
    page.get_by_text("SCRAM-SHA-256, 8,192 iterations").wait_for()
    page.get_by_text("Change a quota").click()
    form = page.locator("#new-quota")
    form.get_by_label("User").fill("ada")
    form.get_by_label("Value").fill("1048576")
    form.get_by_role("button", name="Change…").click()
    person.confirm("Change")
    page.get_by_text("The quota was set.").wait_for()
    page.get_by_text("1,048,576").wait_for()
    page.get_by_role("button", name="Remove Allow User:ada").click()
    person.confirm("Remove")
    page.get_by_text("Removed: Allow User:ada").wait_for()
    person.check()
