"""A real Apache Kafka on the files of our broker: its dump tool and its broker.

Optional: skipped, with the reason, where Apache Kafka is not available.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from barnabas.wire.records.batch import headers
from barnabas.wire.records.records import Record, read_records
from tests.golden.observe import DUMPED, as_json, read_partition
from tests.golden.topics import CODECS
from tests.golden.workload import BASE_TIME, FEATURES, Workload, message_now, numbered
from tests.interop.trees import read_nodes
from tests.support.apache_kafka import ApacheKafka, apache_kafka
from tests.support.broker import BrokerProcess
from tests.support.clients import Message
from tests.support.confluent_client import ConfluentClient
from tests.support.kafka_broker import KafkaBroker, ZooKeeper, running_kafka, running_zookeeper
from tests.support.kafka_dump import Dumped, dump

pytestmark = pytest.mark.timeout(300)

SMALL: Final = {"segment.bytes": "2000", "index.interval.bytes": "200", "retention.ms": "-1"}
COMPACTED: Final = {
    **SMALL,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "86400000",
}
TOPICS: Final = {
    "produced": {"retention.ms": "-1"},
    **{f"recompressed-{c}": {"compression.type": c, "retention.ms": "-1"} for c in CODECS[1:]},
    "segments": SMALL,
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "idempotent": SMALL,
    "deleted": SMALL,
    "compacted": COMPACTED,
    "empty": {},
}
# At any start: its listener is not up when it first connects to itself.
HARMLESS: Final = (
    "Connection to node 0",
    "Controller 0's connection to broker",
    # docs/mixed-clusters.md: Kafka's controller removes the level that only our brokers have.
    "with disabled status contains non-empty features: Map(transaction.version -> 2)",
)


@pytest.fixture(scope="module")
def kafka() -> ApacheKafka:
    return apache_kafka()


@pytest.fixture(scope="module")
def ours(
    kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrokerProcess, dict[str, Any]]]:
    """A stopped broker of ours in its third leader epoch, and what clients consumed from it."""
    process = BrokerProcess(
        tmp_path_factory.mktemp("ours"),
        ["log.retention.check.interval.ms=200", "log.cleaner.backoff.ms=200"],
    )
    try:
        process.start()
        workload = Workload(process.bootstrap, process.data)
        for name, configs in TOPICS.items():
            workload.admin.create_topic(name, 1, configs)
        write(workload)
        process.stop()
        process.start()
        workload.one_by_one("segments", numbered(30, start=80))
        workload.admin.delete_records("deleted", 33)
        first = process.data / "deleted-0" / f"{0:020}.log"
        # While it exists, Kafka finds no timestamp of its records.
        workload.wait("the first segment goes", lambda: not first.exists())
        read = read_all(process.bootstrap)
        process.stop()
        yield process, read
    finally:
        process.close()


def write(workload: Workload) -> None:
    for codec in CODECS:
        if workload.client.lacks_codec(codec) is None:
            workload.client.produce("produced", FEATURES, compression=codec)
    for codec in CODECS[1:]:
        workload.client.produce(f"recompressed-{codec}", FEATURES)
        workload.client.produce(f"recompressed-{codec}", numbered(40, 3000))
    workload.one_by_one("segments", numbered(80))
    workload.one_by_one("deleted", numbered(80))
    workload.one_by_one("append-time", [Message(b"%d" % n) for n in range(10)])
    for _ in range(3):
        now = [message_now(n) for n in range(10)]
        workload.client.produce("idempotent", now, idempotent=True)
    workload.compactable("compacted")
    workload.wait("compaction", lambda: workload.cleaned("compacted") > 60)


def read_all(bootstrap: str) -> dict[str, Any]:
    client = ConfluentClient(bootstrap)
    return {
        topic: {
            "records": [as_json(record) for record in read_partition(client, topic)],
            "times": [client.offset_at(topic, BASE_TIME + shift) for shift in (-1, 4, 333, 10**9)],
        }
        for topic in TOPICS
    }


def files_of(process: BrokerProcess) -> list[Path]:
    found = sorted(path for path in process.data.glob("*/*") if path.suffix in DUMPED)
    assert len(found) > 40
    return found


# The dump tool


def test_kafkas_dump_shows_every_record_that_we_wrote(
    kafka: ApacheKafka, ours: tuple[BrokerProcess, dict[str, Any]]
) -> None:
    dumped = dump(kafka, files_of(ours[0]), "--print-data-log")
    assert dumped.complaints == dumped.gaps()
    holes = {line for line in dumped.gaps() if line.startswith("Non-consecutive")}
    assert holes
    assert all("/compacted-0/" in line for line in holes)
    for path in ours[0].data.glob("*/*.log"):
        data = path.read_bytes()
        batches = dumped.entries[str(path)]
        assert all(batch["isvalid"] and batch["magic"] == 2 for batch in batches)
        shown = [record for batch in batches for record in batch["records"]]
        assert shown == [
            as_dumped(record, header.log_append_time, header.base_sequence, number)
            for position, header in headers(data)
            for number, record in enumerate(read_records(data[position : position + header.size]))
        ], path
    assert snapshots(dumped)


def as_dumped(record: Record, append_time: bool, sequence: int, number: int) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "LogAppendTime" if append_time else "CreateTime": record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence + number if sequence >= 0 else -1,
        "headerKeys": [name for name, _ in record.headers],
        "key": shown(record.key),
        "payload": shown(record.value),
    }


def shown(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def snapshots(dumped: Dumped) -> bool:
    """Three producers, each with the last of its batches."""
    (last,) = [
        entries
        for path, entries in dumped.entries.items()
        if path.endswith("idempotent-0/00000000000000000030.snapshot")
    ]
    known = [(each["firstSequence"], each["lastSequence"], each["lastOffset"]) for each in last]
    return known == [(0, 9, 9), (0, 9, 19), (0, 9, 29)]


@pytest.mark.parametrize("check", ["--index-sanity-check", "--verify-index-only"])
def test_kafkas_dump_finds_nothing_wrong_with_our_indexes(
    check: str, kafka: ApacheKafka, ours: tuple[BrokerProcess, dict[str, Any]]
) -> None:
    assert dump(kafka, files_of(ours[0]), check).complaints == []


# A broker


def carry(nodes: dict[str, bytes], zookeeper: ZooKeeper) -> None:
    """Copy the nodes of our tree to a ZooKeeper."""
    zookeeper.enter(*(f"create {path} {data.decode()}".rstrip() for path, data in nodes.items()))


@pytest.mark.long
def test_a_real_kafka_takes_our_files_over_and_we_take_them_back(
    kafka: ApacheKafka, ours: tuple[BrokerProcess, dict[str, Any]], tmp_path: Path
) -> None:
    process, read = ours
    data = tmp_path / "data"
    shutil.copytree(process.data, data)
    more = [Message(b"by kafka", b"key", (), BASE_TIME + 2_000)]
    with running_zookeeper(kafka, tmp_path / "zookeeper") as zookeeper:
        carry(read_nodes(data), zookeeper)
        with running_kafka(KafkaBroker(zookeeper, tmp_path / "kafka", data)) as broker:
            assert read_all(broker.bootstrap) == read
            client = ConfluentClient(broker.bootstrap)
            assert client.produce("segments", more, idempotent=True) == [110]
            broker.stop()
        complaints = [line for line in broker.complaints() if not any(h in line for h in HARMLESS)]
        assert complaints == []
        assert "Recovering unflushed segment" not in broker.log
    back = BrokerProcess(tmp_path)
    with back.running():
        client = ConfluentClient(back.bootstrap)
        segments = read_partition(client, "segments")
        assert [as_json(each) for each in segments[:-1]] == read["segments"]["records"]
        assert segments[-1].message == more[0]


@pytest.mark.long
def test_a_real_kafka_recovers_what_our_broker_left_when_it_was_killed(
    kafka: ApacheKafka, ours: tuple[BrokerProcess, dict[str, Any]], tmp_path: Path
) -> None:
    process = BrokerProcess(tmp_path)
    shutil.copytree(ours[0].data, process.data)
    try:
        process.start()
        workload = Workload(process.bootstrap, process.data)
        workload.one_by_one("segments", numbered(30, start=110))
        read = read_all(process.bootstrap)
        process.kill()
    finally:
        process.close()
    with running_zookeeper(kafka, tmp_path / "zookeeper") as zookeeper:
        carry(read_nodes(process.data), zookeeper)
        with running_kafka(KafkaBroker(zookeeper, tmp_path / "kafka", process.data)) as broker:
            assert read_all(broker.bootstrap) == read
            broker.stop()
