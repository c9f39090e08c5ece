"""The mirror: no record twice, none lost, and group offsets translated."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # they are there, undeclared
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from pyspark.sql import SparkSession

from barnabas.base.ids import TopicPartition as Partition
from barnabas.spark.mirror.mirror_copy import Mirror as Copier
from barnabas.spark.mirror.mirror_groups import _translate as translate
from barnabas.spark.mirror.mirror_state import MirrorState, OffsetSync, superfluous
from barnabas.spark.side_topics import MIRROR_STATE
from tests.spark.commands import Ended, barnabas
from tests.spark.conftest import Fill, create_topic, produce
from tests.support.broker import BrokerProcess

ANSWERED_WITHIN_S = 60.0
Mirror = Callable[..., Ended]


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A second cluster, of one broker."""
    process = BrokerProcess(tmp_path_factory.mktemp("other"))
    process.start()
    try:
        yield process
    finally:
        process.close()


@pytest.fixture
def mirror(spark: SparkSession, served: BrokerProcess, other: BrokerProcess, topic: str) -> Mirror:
    """Mirrors the test's topic to the other cluster."""

    def run(*more: object) -> Ended:
        places = ("--to", other.bootstrap, "-b", served.bootstrap)
        return barnabas("pipeline", "mirror", topic, *places, "--json", *more)

    return run


def copied(ended: Ended) -> int:
    assert ended.code == 0, ended.err
    records: int = json.loads(ended.out)["records"]
    return records


def rows(spark: SparkSession, broker: BrokerProcess, topic: str) -> list[Any]:
    read = spark.read.format("barnabas").option("kafka.bootstrap.servers", broker.bootstrap)
    found = read.option("subscribe", topic).option("includeHeaders", "true").load()
    return found.drop("topic").orderBy("partition", "offset").collect()


def client(broker: BrokerProcess) -> Any:
    """A Kafka client; its futures resolve only while it is referenced."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def configs(broker: BrokerProcess, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = client(broker)
    [future] = admin.describe_configs([resource]).values()
    return {
        name: entry.value
        for name, entry in future.result(ANSWERED_WITHIN_S).items()
        if not entry.is_default
    }


def test_a_topic_is_copied_whole_and_kept_up_to_date(
    spark: SparkSession, served: BrokerProcess, other: BrokerProcess, topic: str, mirror: Mirror
) -> None:
    create_topic(served.bootstrap, topic, 2, retention_ms="-1", cleanup_policy="compact,delete")
    first: list[dict[str, Any]] = [
        {"key": b"k", "value": b"v", "headers": [("h", b"1"), ("h", None)], "partition": 0},
        {"key": b"gone", "value": None, "timestamp": 5, "partition": 1},
        *(
            {"key": b"%d" % n, "value": b"v", "timestamp": 1000 + n, "partition": n % 2}
            for n in range(200)
        ),
    ]
    produce(served.bootstrap, topic, first)
    assert copied(mirror("--step", "120")) == len(first)
    assert rows(spark, other, topic) == rows(spark, served, topic)
    ours = {"retention.ms": "-1", "cleanup.policy": "compact,delete"}
    assert ours.items() <= configs(other, topic).items()
    assert copied(mirror()) == 0
    admin = client(served)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(ANSWERED_WITHIN_S)
    change = ConfigEntry("retention.ms", "99", incremental_operation=AlterConfigOpType.SET)
    drop = ConfigEntry("cleanup.policy", None, incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change, drop])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(ANSWERED_WITHIN_S)
    produce(served.bootstrap, topic, [{"key": b"k", "partition": n} for n in range(3)])
    # The session of the tests is used all the same; tasks of a cluster write aside first.
    assert copied(mirror("--master", "spark://elsewhere:7077")) == 3
    assert rows(spark, other, topic) == rows(spark, served, topic)
    assert configs(other, topic)["retention.ms"] == "99"
    assert "cleanup.policy" not in configs(other, topic)


def test_a_run_that_dies_before_it_stores_its_progress_copies_nothing_twice(
    spark: SparkSession,
    served: BrokerProcess,
    other: BrokerProcess,
    topic: str,
    fill: Fill,
    mirror: Mirror,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill([{"value": b"%d" % n, "partition": n % 2} for n in range(100)], partitions=2)
    noted = MirrorState.write

    def end(self: MirrorState, lineage: Any, syncs: dict[int, OffsetSync]) -> None:
        if any(sync.target for sync in syncs.values()):
            raise KeyboardInterrupt
        noted(self, lineage, syncs)

    monkeypatch.setattr(MirrorState, "write", end)
    assert mirror("--step", "60").code == 130
    monkeypatch.undo()
    assert copied(mirror()) == 40
    assert rows(spark, other, topic) == rows(spark, served, topic)


def test_a_topic_that_grows_during_each_step_is_copied_up_to_now(
    served: BrokerProcess, topic: str, fill: Fill, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not step after step without end."""
    fill([{"value": b"%d" % n} for n in range(6)])
    step = Copier.step

    def growing(self: Copier, spark: SparkSession) -> Any:
        found = step(self, spark)
        produce(served.bootstrap, topic, [{"value": b"more"}])
        return found

    monkeypatch.setattr(Copier, "step", growing)
    assert copied(mirror("--step", "5")) == 7


def test_a_group_is_at_the_same_record_in_the_copy(
    served: BrokerProcess, other: BrokerProcess, topic: str, fill: Fill, mirror: Mirror
) -> None:
    fill([{"value": b"%d" % n, "partition": 0} for n in range(50)])
    offsets = [TopicPartition(topic, 0, 30)]
    wanted = [ConsumerGroupTopicPartitions(f"{topic}-group", offsets)]
    admin = client(served)
    for future in admin.alter_consumer_group_offsets(wanted).values():
        future.result(ANSWERED_WITHIN_S)
    ended = mirror("--prefix", "copy.", "--step", "20")
    assert copied(ended) == 50
    consumer = Consumer({"bootstrap.servers": other.bootstrap, "group.id": f"{topic}-group"})
    [found] = consumer.committed([TopicPartition(f"copy.{topic}", 0)], ANSWERED_WITHIN_S)
    consumer.close()
    assert found.offset == 30
    groups = [each["group"] for each in json.loads(ended.out)["groups"]]
    assert groups == [f"{topic}-group"]
    assert json.loads(mirror("--prefix", "copy.", "--no-groups").out)["groups"] == []


def test_offsets_are_translated_by_counting_records_in_gaps() -> None:
    syncs = [OffsetSync(100, 0), OffsetSync(150, 50), OffsetSync(200, 70)]
    place = Partition("orders", 0)

    def count(topic: str, partition: int, start: int, end: int) -> int:
        assert (topic, partition) == ("orders", 0)
        return (end - start) // 5 * 2

    def at(offset: int) -> int:
        return translate(syncs, place, offset, count)

    assert [at(40), at(100)] == [0, 0]
    assert [at(149), at(150)] == [49, 50]
    assert [at(160), at(195)] == [54, 68]
    assert [at(200), at(900)] == [70, 70]


def test_syncs_that_others_imply_are_deleted() -> None:
    dense = [OffsetSync(n, n) for n in range(0, 100, 10)]
    assert superfluous(dense) == dense[1:-1]
    gaps = [
        OffsetSync(0, 0),
        OffsetSync(10, 10),
        OffsetSync(20, 15),
        OffsetSync(30, 25),
        OffsetSync(40, 35),
    ]
    assert superfluous(gaps) == [OffsetSync(30, 25)]
    many = [OffsetSync(10 * n, n) for n in range(600)]
    left = [sync for sync in many if sync not in superfluous(many)]
    assert (len(left), left[0], left[-300:]) == (450, many[0], many[300:])


def test_invalid_mirrors_are_reported_in_one_sentence(
    served: BrokerProcess, other: BrokerProcess, topic: str, fill: Fill
) -> None:
    def told(*arguments: object) -> str:
        ended = barnabas("pipeline", "mirror", *arguments, "-b", served.bootstrap)
        assert ended.code in (1, 2)
        assert ended.err.count("\n") == 1
        return ended.err

    fill([{"value": b"v"}])
    assert "would be copied to itself" in told(topic, "--to", served.bootstrap)
    assert f"there is no topic no-{topic}" in told(f"no-{topic}", "--to", other.bootstrap)
    assert "no Kafka broker answers at 127.0.0.1:1" in told(topic, "--to", "127.0.0.1:1")
    create_topic(other.bootstrap, topic, retention_ms="-1")
    produce(other.bootstrap, topic, [{"value": b"not of the mirror"}])
    assert "has records that no mirror wrote" in told(topic, "--to", other.bootstrap)
    assert configs(other, topic)["retention.ms"] == "-1"


def test_the_state_survives_a_restart(other: BrokerProcess) -> None:
    from barnabas.cli.client import ClusterClients
    from barnabas.spark.mirror.mirror_state import Lineage

    state = MirrorState(ClusterClients(other.bootstrap, None))
    lineage = Lineage("cluster", "orders", "id", "copy", "other id")
    state.write(lineage, {0: OffsetSync(10, 0), 1: OffsetSync(5, 0, 3)})
    for more in range(10, 30):
        state.write(lineage, {0: OffsetSync(10 + more, more)})
    state.write(lineage, {0: OffsetSync(50, 30)})
    again = MirrorState(ClusterClients(other.bootstrap, None))
    assert again.syncs(lineage, 0) == [OffsetSync(10, 0), OffsetSync(39, 29), OffsetSync(50, 30)]
    assert again.syncs(lineage, 1) == [OffsetSync(5, 0, 3)]
    assert again.copied_from("copy", "other id") == lineage
    assert again.copied_from("copy", "a new id") is None
    assert MIRROR_STATE in client(other).list_topics(timeout=ANSWERED_WITHIN_S).topics
