"""Barnabas and Apache Kafka in one cluster: each leads, follows and controls the other.

Optional: skipped, with the reason, where Apache Kafka or ZooKeeper is not available.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.interop.mixed import OURS, THEIRS, Mixed
from tests.support.apache_kafka import ApacheKafka, apache_kafka
from tests.support.clients import PATIENCE_S
from tests.support.cluster import until
from tests.support.confluent_client import ConfluentAdmin
from tests.support.kafka_dump import dump
from tests.support.zookeeper import zookeeper_server

pytestmark = pytest.mark.timeout(300)

TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"

IDS_IN_A_BLOCK = 1000
SENT = [f"perhaps lost {number}" for number in range(20)]
# For a topic whose only replica was on a restarted broker: Kafka's controller logs it, too.
HARMLESS = "cannot become follower since the new leader -1 is unavailable"


@pytest.fixture(scope="module")
def kafka() -> ApacheKafka:
    return apache_kafka()


@pytest.fixture(scope="module")
def zookeeper_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = zookeeper_server(tmp_path_factory.mktemp("zookeeper"))
    yield server.address
    server.stop()


# Our controller


@pytest.fixture(scope="module", params=["3.9", pytest.param("2.7", marks=pytest.mark.long)])
def led_by_us(
    kafka: ApacheKafka,
    zookeeper_address: str,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Mixed]:
    """Our broker 0 is the controller; all brokers run, and again after each test.

    With the protocol of 2.7 leaders name the topic in AlterPartition.
    """
    mixed = Mixed(
        kafka,
        tmp_path_factory.mktemp("ours"),
        f"{zookeeper_address}/led-by-us-{request.param}",
        {"inter.broker.protocol.version": request.param},
    )
    try:
        mixed.ours.start([0])
        mixed.ours.start([1])
        mixed.theirs.start()
        mixed.wait_agreed()
        yield mixed
    finally:
        mixed.close()


def test_brokers_of_both_kinds_lead_and_follow_each_other(led_by_us: Mixed) -> None:
    mixed = led_by_us
    mixed.create("both")
    for partition in range(3):
        values = [f"{partition}-{n}" for n in range(20)]
        assert mixed.produce("both", partition, *values) == list(range(20))
        assert mixed.read("both", partition, 20) == values
    mixed.wait_in_sync("both")
    assert [mixed.partition("both", each).leader for each in range(3)] == [0, 1, THEIRS]
    mixed.wait_same_bytes("both")

    files = [path for number in OURS for path in mixed.folders[number].glob("both-*/*.log")]
    dumped = dump(mixed.kafka, files, "--print-data-log")
    assert dumped.complaints == []
    logs = dumped.entries.values()
    assert [sum(len(batch["records"]) for batch in log) for log in logs] == [20] * 6


def test_every_broker_gives_out_producer_ids_of_its_own(led_by_us: Mixed) -> None:
    ids = led_by_us.new_producer_ids()
    assert len({producer_id // IDS_IN_A_BLOCK for producer_id in ids.values()}) == 3, ids


def test_hung_followers_leave_the_isr_of_both_kinds_of_leaders_and_rejoin(
    led_by_us: Mixed,
) -> None:
    mixed = led_by_us
    mixed.create("lagging")
    mixed.ours.brokers[1].pause()
    try:
        for partition in (0, 2):
            mixed.produce("lagging", partition, "not on all", acks="1")
        until(lambda: mixed.partition("lagging", 0).isr == [0, THEIRS], "our leader shrinks")
        until(lambda: mixed.partition("lagging", 2).isr == [0, THEIRS], "their leader shrinks")
    finally:
        mixed.ours.brokers[1].resume()
    mixed.wait_in_sync("lagging")
    mixed.wait_agreed()

    mixed.theirs.pause()
    try:
        for partition in OURS:
            mixed.produce("lagging", partition, "not on theirs", acks="1")
        until(lambda: mixed.partition("lagging", 0).isr == [0, 1], "one of ours shrinks")
        until(lambda: mixed.partition("lagging", 1).isr == [0, 1], "the other one shrinks")
    finally:
        mixed.theirs.resume()
    mixed.wait_in_sync("lagging")
    mixed.wait_agreed()
    mixed.wait_same_bytes("lagging")


@pytest.mark.long
def test_kafkas_tools_are_served_by_our_controller(led_by_us: Mixed, tmp_path: Path) -> None:
    mixed = led_by_us
    at = ("--bootstrap-server", mixed.bootstrap)
    mixed.kafka.run(TOPICS, *at, "--create", "--topic", "tools", "--replica-assignment", "0:1")
    mixed.kafka.run(TOPICS, *at, "--alter", "--topic", "tools", "--partitions", "2",
                    "--replica-assignment", "0:1,1:0")  # fmt: skip
    mixed.wait_agreed()
    mixed.produce("tools", 0, "moves along")

    plan = [
        {"topic": "tools", "partition": 0, "replicas": [THEIRS, 1]},
        {"topic": "tools", "partition": 1, "replicas": [0, THEIRS]},
    ]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": plan}))
    with_plan = (*at, "--reassignment-json-file", file)
    mixed.kafka.run(REASSIGN, *with_plan, "--execute", "--throttle", "1000000")
    until(lambda: mixed.partition("tools", 0)[::3] == ([THEIRS, 1], [1, THEIRS]), "a new replica")
    until(lambda: mixed.partition("tools", 1)[::3] == ([0, THEIRS], [0, THEIRS]), "a new replica")
    verified = mixed.kafka.run(REASSIGN, *with_plan, "--verify")
    assert verified.count("is completed") == 2, verified
    assert "Clearing topic-level throttles on topic tools" in verified
    until(lambda: not list(mixed.folders[0].glob("tools-0")), "the old replica goes")

    elected = mixed.kafka.run(ELECT, *at, "--election-type", "preferred", "--all-topic-partitions")
    assert "Error" not in elected, elected
    described = mixed.kafka.run(TOPICS, *at, "--describe", "--topic", "tools")
    assert f"Partition: 0\tLeader: {THEIRS}\tReplicas: {THEIRS},1" in described
    assert f"Partition: 1\tLeader: 0\tReplicas: 0,{THEIRS}" in described
    assert mixed.read("tools", 0, 1) == ["moves along"]


def test_configs_and_deletions_reach_both_kinds_of_brokers(led_by_us: Mixed) -> None:
    mixed = led_by_us
    mixed.create("passing", retention_ms="123456")
    admins = [ConfluentAdmin(f"127.0.0.1:{port}") for port in mixed.ports.values()]

    def retentions() -> list[str | None]:
        return [each.configs("passing")["retention.ms"] for each in admins]

    assert retentions() == ["123456"] * 3
    admins[-1].replace_configs("passing", {"retention.ms": "77"})
    until(lambda: retentions() == ["77"] * 3, "the change made at theirs")
    admins[0].replace_configs("passing", {"retention.ms": "88"})
    until(lambda: retentions() == ["88"] * 3, "the change made at ours")
    mixed.delete("passing")


def send_to_leader_only(producer: Producer, topic: str) -> None:
    """Send while the followers hang. A fetch that was waiting still gets the first records: Kafka
    answers it after the producer has its response, and the next records may have come by then.
    """
    for value in SENT:
        producer.produce(topic, value, partition=0)
        assert producer.flush(PATIENCE_S) == 0


def went_on_without_the_lost(mixed: Mixed, topic: str, second: int) -> bool:
    values = mixed.read(topic, 0, second + 1)
    kept = values[1:-1]
    return values == ["first", *SENT[: len(kept)], "second"] and len(kept) < len(SENT)


@pytest.mark.long
def test_records_that_only_kafkas_killed_leader_had_are_truncated_when_it_returns(
    led_by_us: Mixed,
) -> None:
    mixed = led_by_us
    mixed.create("cut", [[THEIRS, 0, 1]])
    mixed.produce("cut", 0, "first")
    producer = mixed.producer_at(THEIRS)
    producer.list_topics("cut", timeout=PATIENCE_S)
    for number in OURS:
        mixed.ours.brokers[number].pause()
    send_to_leader_only(producer, "cut")
    mixed.theirs.kill()
    for number in OURS:
        mixed.ours.brokers[number].resume()
    until(lambda: mixed.partition("cut", 0).leader in OURS, "a leader of ours")
    (second,) = mixed.produce("cut", 0, "second")
    mixed.theirs.start()
    mixed.wait_in_sync("cut")
    mixed.wait_same_bytes("cut", 1)
    assert went_on_without_the_lost(mixed, "cut", second)
    mixed.wait_agreed()


@pytest.mark.long
def test_records_that_only_our_killed_leader_had_are_truncated_when_it_returns(
    led_by_us: Mixed,
) -> None:
    mixed = led_by_us
    mixed.create("cut-ours", [[1, THEIRS]])
    mixed.produce("cut-ours", 0, "first")
    producer = mixed.producer_at(1)
    producer.list_topics("cut-ours", timeout=PATIENCE_S)
    mixed.theirs.pause()
    send_to_leader_only(producer, "cut-ours")
    mixed.ours.brokers[1].kill()
    mixed.theirs.resume()
    until(lambda: mixed.partition("cut-ours", 0).leader == THEIRS, "theirs leads")
    (second,) = mixed.produce("cut-ours", 0, "second")
    mixed.ours.start([1])
    mixed.wait_in_sync("cut-ours", (1, THEIRS))
    assert mixed.segments(1, "cut-ours", 0) == mixed.segments(THEIRS, "cut-ours", 0)
    assert went_on_without_the_lost(mixed, "cut-ours", second)
    mixed.wait_agreed()


@pytest.mark.long
def test_kafkas_broker_hands_its_leaderships_over_when_it_stops(led_by_us: Mixed) -> None:
    mixed = led_by_us
    mixed.create("handed-over")
    mixed.produce("handed-over", 2, "before")
    mixed.theirs.stop()
    assert mixed.partition("handed-over", 2).leader in OURS
    assert mixed.produce("handed-over", 2, "after") == [1]
    mixed.theirs.start()
    mixed.wait_in_sync("handed-over")
    mixed.wait_agreed()
    errors = [line for line in mixed.theirs.complaints() if line.startswith(("ERROR", "FATAL"))]
    assert [line for line in errors if HARMLESS not in line] == []


@pytest.mark.long
def test_kafkas_controller_takes_over_from_ours(led_by_us: Mixed) -> None:
    mixed = led_by_us
    mixed.create("left-to-them")
    mixed.produce("left-to-them", 0, "under ours")
    for number in OURS:
        mixed.ours.brokers[number].kill()
    mixed.wait_in_sync("left-to-them", (THEIRS,))
    mixed.wait_agreed()
    assert mixed.produce("left-to-them", 0, "under theirs") == [1]
    mixed.ours.start()
    mixed.wait_in_sync("left-to-them")
    mixed.wait_agreed()
    mixed.wait_same_bytes("left-to-them")


# Their controller


@pytest.fixture(scope="module", params=["3.9", pytest.param("2.6", marks=pytest.mark.long)])
def led_by_kafka(
    kafka: ApacheKafka,
    zookeeper_address: str,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Mixed]:
    """Apache Kafka's broker is the controller; all brokers run, and again after each test.

    With the protocol of 2.6 topics have no ids, and leaders write their ISR themselves.
    """
    mixed = Mixed(
        kafka,
        tmp_path_factory.mktemp("theirs"),
        f"{zookeeper_address}/led-by-kafka-{request.param}",
        {"inter.broker.protocol.version": request.param},
    )
    try:
        mixed.theirs.start()
        mixed.ours.start()
        mixed.wait_agreed()
        yield mixed
    finally:
        mixed.close()


def test_our_brokers_obey_kafkas_controller(led_by_kafka: Mixed) -> None:
    mixed = led_by_kafka
    mixed.create("moved")
    for partition in range(3):
        values = [f"{partition}-{n}" for n in range(20)]
        assert mixed.produce("moved", partition, *values) == list(range(20))
        assert mixed.read("moved", partition, 20) == values
    mixed.wait_in_sync("moved")
    mixed.wait_same_bytes("moved")
    assert len({each // IDS_IN_A_BLOCK for each in mixed.new_producer_ids().values()}) == 3

    # Our leader writes its ISR itself; Kafka's controller reads it and sends it to all.
    mixed.ours.brokers[1].pause()
    try:
        mixed.produce("moved", 0, "not on all", acks="1")
        until(lambda: mixed.partition("moved", 0).isr == [0, THEIRS], "our leader shrinks")
    finally:
        mixed.ours.brokers[1].resume()
    mixed.wait_in_sync("moved")
    mixed.wait_agreed()

    mixed.ours.brokers[0].stop()
    assert mixed.partition("moved", 0).leader == 1
    assert mixed.produce("moved", 0, "handed over") == [21]
    mixed.ours.start([0])
    mixed.wait_in_sync("moved")
    mixed.wait_same_bytes("moved")

    mixed.delete("moved")
    mixed.create("moved", [[0, THEIRS]])
    assert mixed.produce("moved", 0, "after the deletion") == [0]


@pytest.mark.long
def test_our_controller_takes_over_from_kafkas(led_by_kafka: Mixed) -> None:
    mixed = led_by_kafka
    mixed.create("inherited")
    mixed.produce("inherited", 2, "under theirs")
    mixed.theirs.kill()
    mixed.wait_in_sync("inherited", OURS)
    mixed.ours.wait_agreed()
    assert mixed.produce("inherited", 2, "under ours") == [1]
    mixed.theirs.start()
    mixed.wait_in_sync("inherited")
    mixed.wait_agreed()
    mixed.wait_same_bytes("inherited")
