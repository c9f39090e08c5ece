"""The audit finds every kind of damage in log directories, and nothing in sound ones."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.base.ids import TopicPartition
from barnabas.cli.log.log_files import find_broker_dirs
from barnabas.log.checkpoints import encode_epoch_checkpoint, encode_offset_checkpoint
from barnabas.log.leader_epochs import EpochEntry
from barnabas.spark.audit import audit_files
from barnabas.spark.audit.audit_files import find_replicas
from barnabas.wire.records.records import Record, build_batch
from tests.spark.commands import Ended, barnabas
from tests.spark.conftest import Fill
from tests.support.broker import BrokerProcess

pytestmark = pytest.mark.timeout(600)

BROKERS = (0, 1, 2)
IDS = ("AAAAAAAAQACAAAAAAAAAAQ", "AAAAAAAAQACAAAAAAAAAAg")
# The log of a replica: batches of ten records, the first five of epoch 0, the others of 3.
SOUND = [
    bytes(
        build_batch(
            [Record(n, 1_000_000 + n, b"k", b"value %d" % n) for n in range(base, base + 10)],
            base_offset=base,
            leader_epoch=0 if base < 50 else 3,
        )
    )
    for base in range(0, 100, 10)
]
EPOCHS = [EpochEntry(0, 0), EpochEntry(3, 50)]


class Cluster:
    """The log directories of three brokers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._high_watermarks: dict[int, dict[TopicPartition, int]] = {n: {} for n in BROKERS}
        self._cleaned: dict[int, dict[TopicPartition, int]] = {n: {} for n in BROKERS}
        for broker in BROKERS:
            self._data(broker).mkdir(parents=True)
            text = f"version=0\nbroker.id={broker}\ncluster.id=x\n"
            (self._data(broker) / "meta.properties").write_text(text)

    def _data(self, broker: int) -> Path:
        return self.folder / f"broker-{broker}" / "data"

    def write(
        self,
        broker: int,
        partition: int,
        batches: Sequence[bytes],
        *,
        high_watermark: int = 100,
        cleaned_to: int | None = None,
        epochs: Sequence[EpochEntry] = EPOCHS,
        topic_id: str = IDS[0],
    ) -> None:
        """One replica, in two segments."""
        name = TopicPartition("orders", partition)
        folder = self._data(broker) / str(name)
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(b"".join(batches[:4]))
        rest = int.from_bytes(batches[4][:8], "big")
        (folder / f"{rest:020}.log").write_bytes(b"".join(batches[4:]))
        (folder / "leader-epoch-checkpoint").write_bytes(encode_epoch_checkpoint(epochs))
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        self._high_watermarks[broker][name] = high_watermark
        if cleaned_to is not None:
            self._cleaned[broker][name] = cleaned_to

    def write_others(self, partition: int, but: int, **more: Any) -> None:
        for broker in BROKERS:
            if broker != but:
                self.write(broker, partition, SOUND, **more)

    def finish(self) -> None:
        for broker in BROKERS:
            for name, offsets in (
                ("replication", self._high_watermarks[broker]),
                ("cleaner", self._cleaned[broker]),
            ):
                path = self._data(broker) / f"{name}-offset-checkpoint"
                path.write_bytes(encode_offset_checkpoint(offsets))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "cluster")


@pytest.fixture
def audit(spark: SparkSession, tmp_path: Path) -> Callable[..., Ended]:
    def run(*arguments: object) -> Ended:
        return barnabas("pipeline", "audit", "--report", tmp_path / "report.html", *arguments)

    return run


def stamped(batch: bytes, epoch: int) -> bytes:
    """The same batch of another leader epoch, which is not part of its CRC."""
    return batch[:12] + epoch.to_bytes(4, "big") + batch[16:]


def other_content(batch: bytes) -> bytes:
    base = int.from_bytes(batch[:8], "big")
    records = [Record(n, 1_000_000 + n, b"k", b"other %d" % n) for n in range(base, base + 10)]
    epoch = int.from_bytes(batch[12:16], "big")
    return bytes(build_batch(records, base_offset=base, leader_epoch=epoch))


def flipped(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


# For each: the broker that has it, what it has instead of what is sound, more of what it has,
# and what is found.
DAMAGE: dict[str, tuple[int, list[bytes], dict[str, Any], str]] = {
    "a flipped bit": (
        1,
        [*SOUND[:3], flipped(SOUND[3]), *SOUND[4:]],
        {},
        "the CRC of the batch at offset 30 is wrong",
    ),
    "a batch is missing": (
        2,
        [*SOUND[:6], *SOUND[7:]],
        {},
        "offset 70 where 60 is expected: offsets are missing",
    ),
    "a batch is there twice": (
        0,
        [*SOUND[:7], SOUND[6], *SOUND[7:]],
        {},
        "offset 60 where 70 is expected: offsets are duplicated",
    ),
    "an epoch that falls": (
        0,
        [*SOUND[:2], stamped(SOUND[2], 7), *SOUND[3:]],
        {},
        "the batch at offset 30 has a lower leader epoch than 7",
    ),
    "another record, well written": (
        1,
        [*SOUND[:8], other_content(SOUND[8]), SOUND[9]],
        {},
        "at offset 80 it has a batch up to 89 with epoch 3",
    ),
    "an end before what was committed": (
        2,
        SOUND[:9],
        {},
        "ends at 90 but its high watermark is 100",
    ),
    "half a batch": (
        1,
        [*SOUND[:9], SOUND[9][:70]],
        {"high_watermark": 90},
        "truncated",
    ),
    "a wrong checkpoint of epochs": (
        1,
        SOUND,
        {"epochs": [EpochEntry(0, 0), EpochEntry(3, 60)]},
        "offset 50 has leader epoch 3, but the leader-epoch checkpoint has 0",
    ),
    "another topic of that name": (
        2,
        SOUND,
        {"topic_id": IDS[1]},
        f"has topic id {IDS[1]}",
    ),
}


def test_every_kind_of_damage_is_found_in_the_damaged_replica(
    cluster: Cluster, audit: Callable[..., Ended], tmp_path: Path
) -> None:
    for number, (broker, batches, more, _) in enumerate(DAMAGE.values()):
        cluster.write(broker, number, batches, **more)
        cluster.write_others(number, broker)
    cluster.finish()
    ended = audit(cluster.folder, "--json")
    assert ended.code == 1, ended.err
    found = defaultdict(list)
    for finding in json.loads(ended.out)["findings"]:
        found[finding["partition"], finding["broker"]].append(finding["what"])
    for number, (broker, _, _, expected) in enumerate(DAMAGE.values()):
        reported = found[f"orders-{number}", broker]
        assert any(what.partition(expected)[1] for what in reported), (expected, reported)
    report = (tmp_path / "report.html").read_text()
    assert report.count("<svg") == 3
    assert 'class="bad"' in report
    assert "the CRC of the batch at offset 30 is wrong" in report


def test_nothing_is_found_where_replicas_may_differ(
    cluster: Cluster, audit: Callable[..., Ended]
) -> None:
    above = [*SOUND[:9], other_content(SOUND[9])]
    cluster.write(1, 0, above, high_watermark=90)
    cluster.write_others(0, 1, high_watermark=90)
    cleaned = [SOUND[0], *SOUND[4:]]
    cluster.write(1, 1, cleaned, cleaned_to=40)
    cluster.write_others(1, 1)
    cluster.write(2, 2, SOUND[:8], high_watermark=80)
    cluster.write_others(2, 2)
    cluster.finish()
    ended = audit(cluster.folder)
    assert ended.code == 0, ended.out
    assert (
        "note  orders-2 on broker 2 ends at 80 and is not in sync: the high watermark is 100"
        in ended.out
    )
    assert ended.out.count("\nok ") == 4
    assert "9 replicas, " in ended.out


def test_an_archive_is_compared_with_the_log_of_a_running_broker(
    spark: SparkSession,
    served: BrokerProcess,
    topic: str,
    fill: Fill,
    audit: Callable[..., Ended],
    tmp_path: Path,
) -> None:
    fill(
        [
            {"value": b"%d" % n, "key": b"k", "headers": [("h", b"%d" % n)], "partition": n % 2}
            for n in range(3000)
        ],
        partitions=2,
        **{"compression.type": "zstd"},
    )
    archive = tmp_path / "archive"
    made = barnabas("pipeline", "archive", topic, "--to", archive, "-b", served.bootstrap)
    assert made.code == 0, made.err
    arguments = (served.data, "--topic", topic, "--archive", archive)
    ended = audit(*arguments)
    assert ended.code == 0, ended.out + ended.err
    assert "ok    the archive matches its manifest" in ended.out
    manifest = json.loads((archive / "_manifest.json").read_text())
    manifest["files"].clear()
    (archive / "_manifest.json").write_text(json.dumps(manifest))
    ended = audit(*arguments)
    assert ended.code == 1
    for number in range(2):
        assert f"{topic}-{number} on broker 0: the archive has 0 records" in ended.out
        assert f"{topic}-{number} on broker 0: offsets 0 to 999: the log has 1,000" in ended.out


def test_a_log_that_is_rolled_and_shortened_during_the_audit_has_no_findings(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.write(0, 0, SOUND)
    cluster.finish()
    [listed], _ = find_broker_dirs([cluster.folder / "broker-0" / "data" / "orders-0"])
    (listed.path / f"{0:020}.log").rename(listed.path / f"{0:020}.log.deleted")
    (listed.path / f"{100:020}.log").write_bytes(b"")
    monkeypatch.setattr(audit_files, "find_broker_dirs", lambda paths: ([listed], []))

    [replica] = find_replicas([cluster.folder], ())

    assert [each.base_offset for each in replica.segments] == [40, 100]
    assert [each.is_last for each in replica.segments] == [False, True]
    assert replica.first_offset == 40
    (listed.path / f"{40:020}.log").unlink()
    assert replica.without_removed().first_offset == 100


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["."], "not a file of a broker"),
        (["missing"], "no such file or directory"),
        (["cluster", "--topic", "none"], "no partition of none found below"),
        (["cluster", "--archive", "cluster"], "is not an archive"),
        (["lonely"], "is not a broker's log directory"),
    ],
)
def test_invalid_arguments_are_reported_before_spark_starts(
    arguments: list[str],
    told: str,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("barnabas.spark.session._check", lambda place: pytest.fail("too late"))
    cluster.write(0, 0, SOUND)
    (tmp_path / "empty").mkdir()
    (tmp_path / "lonely" / "orders-0").mkdir(parents=True)
    (tmp_path / "lonely" / "orders-0" / f"{0:020}.log").write_bytes(SOUND[0])
    monkeypatch.chdir(tmp_path / "empty" if arguments == ["."] else tmp_path)
    ended = barnabas("pipeline", "audit", *arguments)
    assert ended.code in (1, 2)
    assert told in ended.err
