"""The console of three brokers: one is killed and comes back; pages are kept as pictures."""

import contextlib
import json
import math
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from barnabas.spark.project.project_files import create
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer
from tests.console.conftest import (
    DESKTOP,
    PHONE,
    SCREENSHOTS,
    ConsoleProcess,
    Visitor,
    running_console,
)
from tests.support.background import in_background
from tests.support.cluster import Cluster
from tests.support.confluent_client import admin

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
Visit = Callable[..., Visitor]


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeperServer) -> Iterator[Cluster]:
    """Three brokers with topics of a shop, and a group that is behind."""
    address = f"{zookeeper.address}/console"
    still = ["auto.leader.rebalance.enable=false"]
    with (
        tempfile.TemporaryDirectory(prefix="shop-") as folder,
        Cluster(Path(folder), address, 3, still) as running,
    ):
        fill(running.bootstrap)
        yield running


def fill(bootstrap: str) -> None:
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    names = ("orders", "payments", "shipments", "customers", "returns", "invoices")
    topics = [admin.NewTopic(name, 3, 3) for name in names]
    topics.append(admin.NewTopic("parcels", 4, replica_assignment=[[0, 1]] * 4))  # not balanced
    for made in client.create_topics(topics).values():
        made.result(30)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": "lz4",
            "enable.idempotence": True,
            "batch.num.messages": 40,
        }
    )
    for number in range(3_000):
        value = f'{{"id": {number}, "total": {number % 97}, "customer": "c{number % 40}"}}'
        headers: dict[str, str | bytes | None] = {"source": "web"}
        producer.produce(names[number % 3], value, f"key-{number % 40}", headers=headers)
    producer.flush(30)
    for group, wanted in (("billing", 400), ("shipping", 900)):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["orders"])
        read = 0
        while read < wanted:
            read += len(consumer.consume(wanted - read, 1.0))
        consumer.commit(asynchronous=False)
        consumer.close()
    query = ConsumerGroupTopicPartitions("spark-revenue", [TopicPartition("orders", 0, 120)])
    client.alter_consumer_group_offsets([query])["spark-revenue"].result(30)
    for number in range(4):
        sell(bootstrap, f"till-{number}", is_open=number == 3)


def sell(bootstrap: str, transactional_id: str, *, is_open: bool) -> None:
    """A transaction that is committed, or left to its timeout."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("payments", b'{"paid": 7}', transactional_id)
    producer.flush(60)
    if not is_open:
        producer.commit_transaction(60)


@pytest.fixture(scope="module")
def of_cluster(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    first: Path = cluster.brokers[0].data
    pipelines = tmp_path_factory.mktemp("pipelines")
    create(pipelines / "revenue", "orders", None, cluster.bootstrap)
    options = ("--write", f"--data={first}", f"--pipelines={pipelines}")
    with running_console(cluster.bootstrap, *options) as process:
        yield process


@contextlib.contextmanager
def busy(cluster: Cluster) -> Iterator[None]:
    """Payments all the while, more and fewer of them."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})

    def pay(stop: threading.Event) -> None:
        number = 0
        while not stop.wait(0.05):
            number += 1
            for _ in range(20 + round(10 * math.sin(number / 30))):
                producer.produce("payments", b'{"paid": 7}')
            producer.poll(0)

    with in_background(pay):
        yield
    producer.flush(60)


PICTURES = (
    ("overview", "", "Overview", "Throughput"),
    ("topics", "topics", "Topics", "payments"),
    ("topic", "topics/orders", "orders", "Leader epoch"),
    ("messages", "topics/orders/messages", "orders", "done"),
    ("groups", "groups", "Groups", "billing"),
    ("group", "group?name=billing", "billing", "Members"),
    ("cluster", "cluster", "Cluster", "Log directories"),
    ("reassign", "cluster/reassign?topics=parcels&brokers=0,1,2", "Plan", "Proposed"),
    ("transactions", "transactions?topic=payments", "Transactions", "till-3"),
    ("security", "security", "Security", "Quotas"),
    ("pipelines", "pipelines", "Pipelines", "revenue"),
    ("log", "log?topic=orders&partition=0", "Log", "Base offset"),
    ("topic-configs", "topics/orders/configs?q=retention", "orders", "retention.ms"),
    ("topic-actions", "topics/orders/actions", "orders", "Delete records"),
    ("topic-new", "topics-new", "Create a topic", "Configs, one"),
    ("produce", "topics/orders/produce", "orders", "Headers, one"),
    ("group-reset", "group/reset?name=billing", "Reset offsets", "A list of offsets"),
    ("broker", "cluster/brokers/0", "Broker 0", "configs differ"),
)


@pytest.mark.parametrize(("name", "path", "heading", "words"), PICTURES)
def test_every_page_is_kept_as_a_picture(
    visit: Visit, of_cluster: ConsoleProcess, name: str, path: str, heading: str, words: str
) -> None:
    person = visit(DESKTOP, at=of_cluster)
    page = person.open(path, heading)
    page.get_by_text(words).first.wait_for()
    if name == "messages":
        page.get_by_role("button", name="Message").first.click()
    if name == "overview":
        page.locator("canvas").wait_for()
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    person.check()


def test_a_change_is_kept_as_a_picture_before_it_is_confirmed(
    visit: Visit, of_cluster: ConsoleProcess
) -> None:
    person = visit(DESKTOP, at=of_cluster)
    page = person.open("group/reset?name=billing", "Reset offsets")
    page.locator("select[name=scenario]").select_option("shift")
    page.get_by_label("Time, duration").fill("-100")
    page.get_by_role("button", name="Preview…").click()
    page.get_by_text("This will happen:").wait_for()
    page.screenshot(path=SCREENSHOTS / "confirm.png")
    person.check()


def test_the_sign_in_is_kept_as_a_picture(visit: Visit, cluster: Cluster) -> None:
    with running_console(cluster.bootstrap, password="secret") as process:
        person = visit(DESKTOP, at=process)
        page = person.open("", "Sign in")
        page.screenshot(path=SCREENSHOTS / "sign-in.png")
        person.check()


def test_a_phone_is_kept_as_a_picture(visit: Visit, of_cluster: ConsoleProcess) -> None:
    person = visit(PHONE, at=of_cluster)
    page = person.open("topics/orders/messages", "orders")
    page.get_by_text("done").wait_for()
    page.screenshot(path=SCREENSHOTS / "messages-phone.png")
    person.check()


def test_a_simulated_run_is_played_and_scrubbed(visit: Visit, of_cluster: ConsoleProcess) -> None:
    person = visit(at=of_cluster)
    page = person.open("simulation?seed=7&seconds=12", "Simulation")
    page.get_by_text("no law was broken").wait_for(timeout=120_000)
    page.locator("#sim-picture text", has_text="controller").wait_for()
    before = page.locator("#sim-time").text_content()
    page.get_by_role("slider").press("ArrowRight")
    assert page.locator("#sim-time").text_content() != before
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").click()
    page.screenshot(path=SCREENSHOTS / "simulation.png")
    person.check()


def test_a_broker_that_is_killed_shows_and_heals_by_itself(
    visit: Visit, of_cluster: ConsoleProcess, cluster: Cluster
) -> None:
    person = visit(at=of_cluster)
    page = person.open("", "Overview")
    with busy(cluster):
        rate = page.locator(".tile", has_text="Messages a second").locator("dd")
        rate.filter(has_text=re.compile(r"\d")).wait_for()
        cluster.brokers[1].kill()
        page.get_by_text("broker 1 left the cluster").wait_for(timeout=60_000)
        page.get_by_text("led by").first.wait_for(timeout=60_000)
        page.locator(".tile.warn", has_text="Under-replicated").wait_for(timeout=60_000)
        page.locator(".tile.bad", has_text="broker 1 gone").wait_for()
        page.get_by_role("row", name="1 gone Its replicas").wait_for()
        person.check_all_looks()
        topic = visit(at=of_cluster)
        topic.open("topics/orders", "orders").get_by_text("gone").first.wait_for()
        topic.check_all_looks()
        cluster.start([1])
        page.get_by_text("broker 1 joined the cluster").wait_for(timeout=60_000)
        page.locator(".tile.warn").wait_for(state="detached", timeout=60_000)
        person.check()
        page.screenshot(path=SCREENSHOTS / "overview.png")
        page.emulate_media(color_scheme="dark")
        page.reload()
        page.locator("canvas").wait_for()
        page.screenshot(path=SCREENSHOTS / "overview-dark.png")
        person.check()


@pytest.fixture
def alone(cluster: Cluster) -> Iterator[str]:
    """A topic whose second partition is on broker 1 only, and a group that reads both."""
    client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = admin.NewTopic("alone", 2, replica_assignment=[[0], [1]])
    client.create_topics([topic])["alone"].result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(20):
        producer.produce("alone", b"value", partition=number % 2)
    producer.flush(30)
    committed = [TopicPartition("alone", 0, 3), TopicPartition("alone", 1, 3)]
    wanted = ConsumerGroupTopicPartitions("lonely", committed)
    client.alter_consumer_group_offsets([wanted])["lonely"].result(30)
    yield "alone"
    client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})  # of today's controller
    client.delete_consumer_groups(["lonely"])["lonely"].result(30)
    client.delete_topics(["alone"])["alone"].result(30)


def test_partitions_without_a_leader_are_named_wherever_they_are_left_out(
    visit: Visit, of_cluster: ConsoleProcess, cluster: Cluster, alone: str
) -> None:
    person = visit(at=of_cluster)
    without = "without alone-1: no leader"
    tail = visit(at=of_cluster).open("topics/alone/messages?where=live&partition=1", "alone")
    tail.get_by_text("0 shown, 0 read").wait_for()
    try:
        cluster.brokers[1].kill()
        tail.get_by_text("trying again").wait_for(timeout=60_000)
        page = person.open("groups?q=lonely", "Groups")
        page.locator("tr", has_text=re.compile(f"lonely.*7.*{without}", re.DOTALL)).wait_for(
            timeout=60_000
        )
        person.check()
        page = person.open("group?name=lonely", "lonely")
        page.locator(".tile", has_text=without).wait_for()
        page.locator("tr", has_text="alone").get_by_text("no leader").wait_for()
        page.get_by_text("Where the line is dashed, partitions were left out").wait_for()
        person.check()
        page = person.open("topics?q=alone", "Topics")
        page.locator("tr", has_text=without).wait_for()
        page = person.open("topics/alone", "alone")
        page.locator(".tile", has_text=f"10 {without}").wait_for()
        page.locator("tr", has_text="lonely").get_by_text(without).wait_for()
        person.check()
        page = person.open("topics/alone/messages", "alone")
        page.get_by_text("Partition 1 is left out: no leader.").wait_for()
        page.get_by_text("10 shown, 10 read; done").wait_for()
        page = person.open("topics/alone/messages?partition=1&where=oldest", "alone")
        page.get_by_role("alert").get_by_text("alone-1 cannot be read: no leader").wait_for()
        person.check()
    finally:
        cluster.start([1])
    page = person.open("groups?q=lonely", "Groups")
    page.get_by_text(without).wait_for(state="detached", timeout=60_000)
    page.get_by_role("row", name=re.compile(r"lonely.* 14\b")).wait_for()
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce("alone", b"after all", partition=1)
    producer.flush(60)
    tail.get_by_text("1 shown, 1 read").wait_for(timeout=60_000)


def test_replicas_move_by_a_plan_that_was_proposed(
    visit: Visit, of_cluster: ConsoleProcess, cluster: Cluster
) -> None:
    person = visit(at=of_cluster)
    page = person.open("cluster/reassign?topics=returns&brokers=0,1,2", "Plan")
    client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    now = client.list_topics("returns").topics["returns"].partitions
    moves = [{"topic": "returns", "partition": n, "replicas": now[n].replicas} for n in (0, 1)]
    page.get_by_label("The plan").fill(json.dumps({"version": 1, "partitions": moves}))
    page.get_by_role("button", name="Start…").click()
    page.get_by_text("The plan changes nothing").wait_for()
    person.complaints.clear()  # the browser's, about the status of that page
    person.open("cluster/reassign?topics=returns&brokers=0,1,2", "Plan")
    moves[0]["replicas"] = [2, 1]
    page.get_by_label("The plan").fill(json.dumps({"version": 1, "partitions": moves}))
    page.get_by_label("Throttle").fill("50000000")
    page.get_by_role("button", name="Start…").click()
    page.get_by_text("returns-0: replicas").wait_for()
    assert page.get_by_text("returns-1: replicas").count() == 0
    person.confirm("Start")
    page.get_by_text("1 partition being reassigned.").wait_for()
    page.get_by_text("No partition is being reassigned").wait_for(timeout=60_000)
    replicas = client.list_topics("returns").topics["returns"].partitions[0].replicas
    assert sorted(replicas) == [1, 2]
    page.get_by_role("button", name="Remove throttles…").click()
    person.confirm("Remove")
    page.get_by_text("Throttles were removed: returns").wait_for()
    person.check_all_looks()


def test_reassignments_are_watched_throttled_and_cancelled(
    visit: Visit, of_cluster: ConsoleProcess, cluster: Cluster
) -> None:
    client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = admin.NewTopic("heavy", 2, replica_assignment=[[0, 1], [0, 1]])
    client.create_topics([topic])["heavy"].result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(400):
        producer.produce("heavy", os.urandom(20_000), partition=number % 2)
        producer.poll(0)
    producer.flush(30)
    person = visit(PHONE, dark=True, at=of_cluster)
    page = person.open("cluster/reassign?topics=heavy&brokers=0,1,2", "Plan")
    moves = [f'{{"topic": "heavy", "partition": {n}, "replicas": [2]}}' for n in range(2)]
    page.get_by_label("The plan").fill(f'{{"version": 1, "partitions": [{", ".join(moves)}]}}')
    page.get_by_label("Throttle").fill("1000")  # an hour for the copy
    page.get_by_role("button", name="Start…").click()
    person.confirm("Start")
    row = page.get_by_role("row", name="heavy-1")
    row.get_by_text(" of 3.8 MiB").wait_for()
    page.get_by_text("at most 1,000 bytes a second on brokers 0, 1, 2").wait_for()
    person.check_all_looks()
    page.get_by_label("Bytes a second").fill("2048")
    page.get_by_role("button", name="Throttle…", exact=True).click()
    page.get_by_text("Brokers copy at most 2,048 bytes a second").wait_for()
    person.confirm("Change")
    page.get_by_text("at most 2,048 bytes a second on brokers 0, 1, 2").wait_for()
    page.get_by_role("button", name="Cancel heavy-0").click()
    page.get_by_text("heavy-0 keeps its former replicas.").wait_for()
    person.check_all_looks()
    person.confirm("Cancel them")
    page.get_by_text("1 reassignment cancelled.").wait_for()
    page.get_by_role("row", name="heavy-0").wait_for(state="detached")
    row.wait_for()
    page.get_by_text("at most 2,048 bytes a second on").wait_for()
    page.get_by_role("button", name="Cancel all…").click()
    page.get_by_text("heavy-1 keeps its former replicas.").first.wait_for()
    person.confirm("Cancel them")
    page.get_by_text("No partition is being reassigned").wait_for(timeout=60_000)
    for partition in client.list_topics("heavy").topics["heavy"].partitions.values():
        assert sorted(partition.replicas) == [0, 1]
    person.check()


def test_a_cluster_that_is_gone_is_reported_and_comes_back(
    visit: Visit, of_cluster: ConsoleProcess, cluster: Cluster
) -> None:
    person = visit(at=of_cluster)
    page = person.open("topics", "Topics")
    page.get_by_role("link", name="orders", exact=True).wait_for()
    for broker in cluster.brokers.values():
        broker.kill()
    page.get_by_text("The cluster does not answer").wait_for(timeout=60_000)
    reader = visit(at=of_cluster)
    messages = reader.open("topics/orders/messages", "orders")
    messages.get_by_text("This page tries again by itself").wait_for()
    reader.check()  # it loads again now and then
    began = time.monotonic()
    cluster.start()
    page.get_by_role("link", name="orders", exact=True).wait_for(timeout=60_000)
    assert time.monotonic() - began < 90
    messages.get_by_text("; done").wait_for(timeout=60_000)
    person.check_all_looks()
